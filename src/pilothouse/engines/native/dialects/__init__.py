"""Wire formats of model APIs, one pure module each: our call -> request, the stream's objects -> pieces and a reply."""
