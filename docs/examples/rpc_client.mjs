// Usage: node rpc_client.mjs WORKSPACE TEXT. Sends one prompt, shows steps, asks for approvals, prints the answer.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [workspace, text] = process.argv.slice(2);
const command = (process.env.PILOTHOUSE ?? "pilothouse").split(" ");
const server = spawn(command[0], [...command.slice(1), "rpc", "--workspace", workspace], {
  stdio: ["pipe", "pipe", "inherit"],
});
const send = (frame) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...frame }) + "\n");

function ask(question) {
  const person = createInterface({ input: process.stdin, output: process.stdout });
  return new Promise((resolve) => {
    person.once("close", () => resolve("")); // the input ended
    person.question(question, resolve);
  }).finally(() => person.close());
}

const able = { supports_confirm: true };
send({ id: 1, method: "initialize", params: { protocol_version: "0", ui_capabilities: able } });
send({ id: 2, method: "run.start", params: { input: { type: "text", text } } });

for await (const line of createInterface({ input: server.stdout })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "agent.event" && params.event.type === "step_start") console.log("·", params.event.title);
  if (method === "agent.event" && params.event.type === "final") console.log(params.event.content);
  if (method === "ui.confirm.request") {
    const said = await ask(`${params.title}\n${params.message}\nAllow? [y/N] `);
    send({ id, result: { ok: said.toLowerCase() === "y" } });
  }
  if (method === "run.status" && ["completed", "error", "cancelled"].includes(params.status)) {
    process.exitCode = params.status === "completed" ? 0 : 1;
    server.stdin.end();
    break;
  }
}
