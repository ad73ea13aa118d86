// A message to rhea and back, over TLS.
//
//   node tls.cjs HOST PORT QUEUE CA [CERTIFICATE KEY]   ends with 0 when everything was as it should be
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const { readFileSync } = require("node:fs");
const rhea = require("rhea");
const { heard, outcomeOf, receiverFrom, senderTo, take } = require("./connecting.cjs");

async function main(host, port, queue, ca, cert, key) {
  const options = { host, port: Number(port), transport: "tls", ca: [readFileSync(ca)] };
  if (cert) Object.assign(options, { cert: readFileSync(cert), key: readFileSync(key) });
  const login = { username: "guest", password: "guest", reconnect: false };
  const connection = rhea.create_container().connect({ ...options, ...login });
  await heard(connection, "connection_open", ["connection_error", "disconnected"]);
  const body = "rhea".repeat(50_000);
  const sender = await senderTo(connection, `/queues/${queue}`);
  for (let count = 0; count < 20; count++) {
    assert.equal(await outcomeOf(sender, { body }), "accepted");
  }
  const receiver = await receiverFrom(connection, `/queues/${queue}`);
  const contexts = await take(receiver, 20);
  for (const { message } of contexts) assert.equal(message.body, body);
  connection.close();
  await once(connection, "connection_close");
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
