// A message to amqplib and back, over TLS.
//
//   node tls.cjs URL CA [CERTIFICATE KEY]      ends with 0 when everything was as it should be
"use strict";

const amqp = require("amqplib");
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");

async function main(url, ca, cert, key) {
  const options = { ca: [readFileSync(ca)] };
  if (cert) Object.assign(options, { cert: readFileSync(cert), key: readFileSync(key) });
  const connection = await amqp.connect(url, options);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const body = Buffer.alloc(300_000, "amqplib");
  for (let count = 0; count < 20; count++) channel.sendToQueue(queue, body);
  await channel.waitForConfirms();
  for (let count = 0; count < 20; count++) {
    const message = await channel.get(queue, { noAck: true });
    assert.ok(message.content.equals(body));
  }
  await connection.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
