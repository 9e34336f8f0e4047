"""The wire's data for what people do with a bot's controls: presses, choices, commands, forms.

Whoever could not do it in the app fails here: a button that is not there, a command that was not registered.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from simcord.backend import Backend, serializers
from simcord.components import walk_components
from simcord.enums import SELECT_TYPES, AppCommandType, ComponentType, OptionType
from simcord.interactions import nest_options, validate_option_value, walk_to_subcommand
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.world import Json, Post

TYPED = (ComponentType.TEXT_INPUT, ComponentType.RADIO_GROUP, ComponentType.CHECKBOX)
CHOSEN = (*SELECT_TYPES, ComponentType.CHECKBOX_GROUP)
ENTITIES = (OptionType.USER, OptionType.CHANNEL, OptionType.ROLE, OptionType.MENTIONABLE)


def press_data(post: Post, label: str) -> Json:
    assert label in post.buttons, f"there is no button {label!r} among {list(post.buttons)}"
    return _touched(post, post.buttons[label])


def choice_data(post: Post, labels: Sequence[str], custom_id: str = "") -> Json:
    """The only menu, unless one is named; the labels are what a person sees."""
    assert post.selects, "there is no menu"
    custom_id = custom_id or next(iter(post.selects))
    options = post.selects[custom_id]
    menu = _component(post, custom_id)
    missing = [label for label in labels if label not in options]
    assert not missing, f"there is no choice {missing} among {list(options)}"
    least, most = menu.get("min_values", 1), menu.get("max_values", 1)
    assert least <= len(labels) <= most, f"the menu takes {least} to {most}, not {len(labels)}"
    values = [options[label] for label in labels]
    return {**_touched(post, custom_id), "values": values}


def _component(post: Post, custom_id: str) -> Json:
    return next(one for one in post.components if one.get("custom_id") == custom_id)


def _touched(post: Post, custom_id: str) -> Json:
    """With the number that Discord gives to each component of a message."""
    one = _component(post, custom_id)
    return {"component_type": one["type"], "custom_id": custom_id, "id": one["id"]}


def find_command(state: Backend, user_id: int, channel_id: int, name: str, kind: AppCommandType) -> Json:
    seen = state.visible_commands(user_id=user_id, channel_id=channel_id, type=kind)
    found = [command for command in seen if command["name"] == name]
    assert found, f"no command {name!r} among {[command['name'] for command in seen]}"
    return found[0]


def command_data(
    state: Backend,
    root: Json,
    path: Sequence[str],
    given: Mapping[str, Any],
    channel_id: int,
    typing: str = "",
) -> Json:
    """`typing` names the option whose choices are asked for while it is being typed."""
    leaf, nesting = walk_to_subcommand(root, list(path))
    declared = {option["name"]: option for option in leaf.get("options") or ()}
    assert given.keys() <= declared.keys(), f"{root['name']} has no option {sorted(given.keys() - declared)}"
    needed = [name for name, option in declared.items() if option.get("required") and name not in given]
    assert typing or not needed, f"{root['name']} needs {needed}"
    resolved: Json = {}
    options = [
        {
            "name": name,
            "type": declared[name]["type"],
            "value": value,
            **({"focused": True} if name == typing else {}),
        }
        for name, value in (
            (
                name,
                _option_value(
                    state, root["name"], declared[name], value, channel_id, resolved, name == typing
                ),
            )
            for name, value in given.items()
        )
    ]
    data = {
        "id": root["id"],
        "name": root["name"],
        "type": root["type"],
        "options": nest_options(root, nesting, options),
    }
    return {**data, **({"resolved": resolved} if resolved else {}), **_scope(root)}


def _option_value(
    state: Backend, command: str, option: Json, value: Any, channel_id: int, resolved: Json, typing: bool
) -> Any:
    kind = OptionType(option["type"])
    if typing:
        return value
    if kind == OptionType.ATTACHMENT:
        assert isinstance(value, File)
        (stored,) = state.store_attachments(channel_id, [(value.name, value.data)])
        resolved.setdefault("attachments", {})[stored["id"]] = stored
        return stored["id"]
    if kind in ENTITIES:
        return _resolve(state, kind, value.id, state.get_channel(channel_id).guild_id, resolved)
    return validate_option_value(command, option, value)


def _resolve(state: Backend, kind: OptionType, id: int, guild_id: int | None, resolved: Json) -> str:
    """What was chosen by its id is told in full beside it."""
    key = str(id)
    if kind == OptionType.CHANNEL:
        channel = dict(serializers.channel_payload(state, state.get_channel(id)))
        resolved.setdefault("channels", {})[key] = {**channel, "permissions": "0"}
    elif kind == OptionType.ROLE or (guild_id and id in state.get_guild(guild_id).roles):
        assert guild_id
        resolved.setdefault("roles", {})[key] = dict(serializers.role_payload(state.get_role(guild_id, id)))
    else:
        resolved |= target_user(state, id, guild_id)
    return key


def target_user(state: Backend, user_id: int, guild_id: int | None) -> Json:
    key = str(user_id)
    told: Json = {"users": {key: dict(serializers.user_payload(state.get_user(user_id)))}}
    if guild_id is not None:
        guild = state.get_guild(guild_id)
        member = serializers.member_payload(state, guild, guild.members[user_id], with_user=False)
        told["members"] = {key: dict(member)}
    return told


def context_data(root: Json, target_id: int, resolved: Json) -> Json:
    data = {"id": root["id"], "name": root["name"], "type": root["type"]}
    return {**data, "target_id": str(target_id), "resolved": resolved, **_scope(root)}


def _scope(root: Json) -> Json:
    return {"guild_id": root["guild_id"]} if root.get("guild_id") else {}


def form_data(modal: Json, given: Mapping[str, Any]) -> Json:
    """A form as it was shown, filled in: custom id → text, or the values that were chosen."""
    controls = [one["custom_id"] for one in walk_components(modal["components"]) if "custom_id" in one]
    assert given.keys() <= set(controls), f"the form has {controls}, not {sorted(given)}"
    return {
        "custom_id": modal["custom_id"],
        "components": [_fill(component, given) for component in modal["components"]],
    }


def _fill(component: Json, given: Mapping[str, Any]) -> Json:
    filled: Json = {"type": component["type"], **({"id": component["id"]} if "id" in component else {})}
    if "components" in component:
        return {**filled, "components": [_fill(child, given) for child in component["components"]]}
    if "component" in component:
        return {**filled, "component": _fill(component["component"], given)}
    custom_id = component.get("custom_id", "")
    if component["type"] in TYPED:
        value = given.get(custom_id, component.get("value", ""))
        assert value or not component.get("required", True), f"{custom_id} must be filled in"
        return {**filled, "custom_id": custom_id, "value": value}
    if component["type"] in CHOSEN:
        return {**filled, "custom_id": custom_id, "values": list(given.get(custom_id, ()))}
    return filled
