// What amqplib, the JavaScript client, does with a broker: one scenario per call.
//
//   node scenarios.cjs SCENARIO URL      ends with 0 when everything was as it should be
//
// The caller sets NODE_PATH, so that amqplib need not be installed beside this file.
"use strict";

const amqp = require("amqplib");
const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { once } = require("node:events");

const unique = (name) => `interop.${name}.${randomUUID()}`;

async function withConnection(url, story) {
  const connection = await amqp.connect(url);
  try {
    await story(connection);
  } finally {
    await connection.close();
  }
}

// Consumes until `count` messages came; resolves to them, acknowledged.
function take(channel, queue, count) {
  return new Promise((resolve, reject) => {
    const messages = [];
    channel
      .consume(queue, (message) => {
        messages.push(message);
        channel.ack(message);
        if (messages.length === count) resolve(messages);
      })
      .catch(reject);
  });
}

// Dead-lettering is not part of any answer, so the first get may come too early.
async function getSoon(channel, queue) {
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message) return message;
  }
}

// A frame of a body on channel 1, of 60,000 octets.
const late = Buffer.concat([
  Buffer.from([3, 0, 1, 0, 0, 0xea, 0x60]),
  Buffer.alloc(60_000),
  Buffer.from([0xce]),
]);

const scenarios = {
  async routes_through_exchanges_to_a_consumer_with_prefetch(url) {
    await withConnection(url, async (connection) => {
      const channel = await connection.createChannel();
      const [fanout, topic] = [unique("fanout"), unique("topic")];
      await channel.assertExchange(fanout, "fanout", { autoDelete: true });
      await channel.assertExchange(topic, "topic", { autoDelete: true });
      await channel.bindExchange(topic, fanout, "");
      const { queue } = await channel.assertQueue("", { exclusive: true });
      await channel.bindQueue(queue, topic, "a.#");
      await channel.prefetch(1);
      for (const key of ["a.1", "b.1", "a.2.x"]) channel.publish(fanout, key, Buffer.from(key));
      const messages = await take(channel, queue, 2);
      assert.deepEqual(messages.map((message) => message.content.toString()), ["a.1", "a.2.x"]);
      assert.deepEqual(messages.map((message) => message.fields.exchange), [fanout, fanout]);
      await channel.close();
    });
  },

  async confirms_nacks_and_returns(url) {
    await withConnection(url, async (connection) => {
      const channel = await connection.createConfirmChannel();
      const returned = [];
      channel.on("return", (message) => returned.push(message));
      const full = unique("full");
      await channel.assertQueue(full, {
        exclusive: true,
        arguments: { "x-max-length": 1, "x-overflow": "reject-publish" },
      });
      const publish = (key, options) =>
        new Promise((resolve, reject) =>
          channel.publish("", key, Buffer.from("m"), options, (error) =>
            error ? reject(error) : resolve(),
          ),
        );
      await publish(full, {});
      await assert.rejects(publish(full, {}), /nacked/);
      await publish("no-such-queue", { mandatory: true, messageId: "lost" });
      assert.equal(returned.length, 1);
      assert.equal(returned[0].fields.replyCode, 312);
      assert.equal(returned[0].properties.messageId, "lost");
      for (let number = 0; number < 200; number += 1) {
        channel.publish("", "nowhere", Buffer.from(String(number)));
      }
      await channel.waitForConfirms();
      await channel.close();
    });
  },

  async gets_nacks_and_dead_letters(url) {
    await withConnection(url, async (connection) => {
      const channel = await connection.createChannel();
      const graveyard = (await channel.assertQueue("", { exclusive: true })).queue;
      const { queue } = await channel.assertQueue("", {
        exclusive: true,
        deadLetterExchange: "",
        deadLetterRoutingKey: graveyard,
      });
      assert.equal(await channel.get(queue), false);
      channel.sendToQueue(queue, Buffer.from("twice"));
      const first = await channel.get(queue);
      assert.equal(first.fields.redelivered, false);
      channel.nack(first, false, true);
      const second = await channel.get(queue);
      assert.equal(second.fields.redelivered, true);
      channel.reject(second, false);
      const dead = await getSoon(channel, graveyard);
      const [death] = dead.properties.headers["x-death"];
      assert.equal(death.reason, "rejected");
      assert.equal(death.queue, queue);
      assert.equal(death.count, 1);
      assert.equal(death.time["!"], "timestamp");
      channel.sendToQueue(queue, Buffer.from("late"), { expiration: 1 });
      const late = await getSoon(channel, graveyard);
      assert.equal(late.properties.headers["x-first-death-reason"], "expired");
      channel.sendToQueue(queue, Buffer.from("purged"));
      assert.deepEqual(await channel.purgeQueue(queue), { messageCount: 1 });
      assert.deepEqual(await channel.deleteQueue(queue), { messageCount: 0 });
    });
  },

  async a_deleted_queue_cancels_the_consumer(url) {
    await withConnection(url, async (connection) => {
      const channel = await connection.createChannel();
      const { queue } = await channel.assertQueue(unique("doomed"));
      // amqplib hands its consumer null when the server cancels it.
      const cancelled = new Promise((resolve) => channel.consume(queue, resolve));
      await channel.checkQueue(queue);
      await channel.deleteQueue(queue);
      assert.equal(await cancelled, null);
      assert.ok((await channel.assertQueue("", { exclusive: true })).queue);
    });
  },

  async a_channel_error_leaves_the_connection(url) {
    await withConnection(url, async (connection) => {
      const broken = await connection.createChannel();
      const failed = once(broken, "error");
      await assert.rejects(broken.checkQueue(unique("missing")), /404/);
      assert.equal((await failed)[0].code, 404);
      const other = await connection.createChannel();
      other.on("error", () => {});
      const { queue } = await other.assertQueue(unique("classic"), { exclusive: true });
      await assert.rejects(other.assertQueue(queue, { exclusive: true, maxLength: 1 }), /406/);
      const third = await connection.createChannel();
      assert.ok((await third.assertQueue("", { exclusive: true })).queue);
    });
  },

  async field_types_and_large_bodies_come_back(url) {
    const headers = {
      text: "grün",
      truth: true,
      lie: false,
      tiny: 1,
      small: -300,
      long: 70000,
      large: 2 ** 40,
      double: 0.1,
      nothing: null,
      octets: Buffer.from([0, 255]),
      table: { inner: { deep: [1, "two", { three: 3.5 }] } },
      list: [true, null, [1.5], {}],
      moment: { "!": "timestamp", value: 1709209801 },
      money: { "!": "decimal", value: { digits: 12345, places: 3 } },
      single: { "!": "float", value: 0.25 },
      unsigned: { "!": "uint32", value: 2 ** 32 - 1 },
    };
    const unwrapped = {
      ...headers,
      single: 0.25,
      unsigned: 2 ** 32 - 1,
    };
    for (const frameMax of [4096, 131072]) {
      await withConnection(`${url}?frameMax=${frameMax}`, async (connection) => {
        const channel = await connection.createChannel();
        const { queue } = await channel.assertQueue("", { exclusive: true });
        const body = Buffer.alloc(1_049_344, "0123456789abcdef");
        channel.sendToQueue(queue, body, {
          headers, contentType: "text/plain", priority: 5, correlationId: "c", replyTo: "r",
          expiration: 60000, messageId: "m", timestamp: 1709209801, type: "t", userId: "guest",
          appId: "a", persistent: true,
        });
        const [message] = await take(channel, queue, 1);
        assert.ok(message.content.equals(body));
        assert.deepEqual(message.properties.headers, unwrapped);
        assert.equal(message.properties.expiration, "60000");
        assert.equal(message.properties.deliveryMode, 2);
        assert.equal(message.properties.userId, "guest");
        assert.equal(message.properties.timestamp, 1709209801);
      });
    }
  },

  async calls_a_procedure_over_direct_reply_to(url) {
    await withConnection(url, async (connection) => {
      const [server, caller] = [await connection.createChannel(), await connection.createChannel()];
      const { queue } = await server.assertQueue("", { exclusive: true });
      await server.consume(queue, (message) => {
        const { replyTo, correlationId } = message.properties;
        const answer = Buffer.from(message.content.toString().toUpperCase());
        server.sendToQueue(replyTo, answer, { correlationId });
        server.ack(message);
      });
      const answered = new Promise((resolve) => {
        caller.consume("amq.rabbitmq.reply-to", resolve, { noAck: true });
      });
      await caller.checkQueue(queue); // the consumer must stand before the call is made
      caller.sendToQueue(queue, Buffer.from("shout"), {
        correlationId: "7",
        replyTo: "amq.rabbitmq.reply-to",
      });
      const answer = await answered;
      assert.equal(answer.content.toString(), "SHOUT");
      assert.equal(answer.properties.correlationId, "7");
    });
  },

  async is_refused_with_a_wrong_password_or_vhost(url) {
    await assert.rejects(amqp.connect(url.replace("guest:guest", "guest:wrong")), /403/);
    const root = url.slice(0, url.lastIndexOf("/"));
    // amqplib does not pass the broker's 530 on, only that it was not open-ok.
    await assert.rejects(amqp.connect(`${root}/no-such-vhost`), /got <ConnectionClose/);
  },

  async survives_idle_heartbeats(url) {
    await withConnection(`${url}?heartbeat=1`, async (connection) => {
      const channel = await connection.createChannel();
      // Idle for over three intervals: the point of this scenario.
      await new Promise((resolve) => setTimeout(resolve, 3200));
      assert.ok((await channel.assertQueue("", { exclusive: true })).queue);
    });
  },

  // What is still in the client's buffers when the close is answered must not break the socket.
  async closes_while_it_publishes(url) {
    for (let round = 0; round < 30; round++) {
      const connection = await amqp.connect(url);
      const errors = [];
      connection.on("error", (error) => errors.push(error));
      const socket = connection.connection.stream;
      socket.on("error", (error) => errors.push(error));
      const channel = await connection.createChannel();
      const { queue } = await channel.assertQueue("", { exclusive: true });
      const body = Buffer.alloc(50_000);
      for (let count = 0; count < 40; count++) channel.sendToQueue(queue, body);
      const closed = connection.close();
      // Frames of channels that did not know of the close yet: complete, and too late.
      for (let count = 0; count < 40; count++) socket.write(late);
      const ended = once(socket, "close");
      await closed;
      await ended;
      assert.deepEqual(errors, [], `round ${round}`);
    }
  },

  async hears_of_a_dropped_connection(url) {
    const connection = await amqp.connect(url);
    connection.on("error", () => {});
    // Not events.once: it rejects on "error", which comes first when the socket just ends.
    const closed = new Promise((resolve) => connection.once("close", resolve));
    console.log("connected");
    await closed;
    await withConnection(url, async (again) => assert.ok(await again.createChannel()));
  },
};

const [name, url] = process.argv.slice(2);
scenarios[name](url).catch((error) => {
  console.error(error);
  process.exit(1);
});
