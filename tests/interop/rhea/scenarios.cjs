// What rhea, the JavaScript client of AMQP 1.0, does with a broker: one scenario per call.
//
//   node scenarios.cjs SCENARIO URL QUEUE      ends with 0 when everything was as it should be
//
// The queue is there and empty, and dead letters of it go to QUEUE.dead. The caller sets NODE_PATH, so
// that rhea need not be installed beside this file.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { once } = require("node:events");
const rhea = require("rhea");
const {
  connected,
  connecting,
  heard,
  isEmpty,
  outcomeOf,
  receiverFrom,
  senderTo,
  take,
  withConnection,
} = require("./connecting.cjs");

const { types } = rhea;
const SETTLED = 1;
const SECOND = 1;
const bodies = (contexts) => contexts.map((context) => context.message.body);

const scenarios = {
  async sends_and_receives_a_thousand_in_order(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue);
      const wanted = Array.from({ length: 1000 }, (_, number) => `message ${number}`);
      let accepted = 0;
      const all = new Promise((resolve) =>
        sender.on("accepted", () => ++accepted === wanted.length && resolve()),
      );
      for (const body of wanted) sender.send({ body, durable: true });
      await all;
      const receiver = await receiverFrom(connection, queue);
      assert.deepEqual(bodies(await take(receiver, wanted.length)), wanted);
      assert.ok(await isEmpty(receiver));
    });
  },

  // As rhea's own examples do it: no user, no SASL layer, and a queue that nobody has declared.
  async needs_no_login_and_no_queue(url, queue) {
    const bare = new URL(url);
    bare.username = bare.password = "";
    await withConnection(bare.href, async (connection) => {
      const name = `${queue}.${randomUUID()}`;
      const properties = { "x-expires": 60000 };
      const terminus = { address: name, dynamic_node_properties: properties };
      const receiver = await receiverFrom(connection, terminus);
      assert.equal(await outcomeOf(await senderTo(connection, name), { body: "Hello World!" }), "accepted");
      assert.deepEqual(bodies(await take(receiver, 1)), ["Hello World!"]);
      await assert.rejects(receiverFrom(connection, `/queues/${randomUUID()}`), { condition: "amqp:not-found" });
    });
  },

  async keeps_what_a_message_is_made_of(url, queue) {
    await withConnection(url, async (connection) => {
      const sent = {
        durable: true,
        priority: 3,
        ttl: 60000,
        message_id: "id",
        correlation_id: "correlation",
        reply_to: "/queues/reply",
        subject: "subject",
        content_type: "text/plain",
        group_id: "group",
        message_annotations: { "x-opt-mine": "yes" },
        application_properties: { text: "t", number: 42, fraction: 0.5, truth: true },
        body: { list: [1, "two", null], map: { deep: "down" } },
      };
      assert.equal(await outcomeOf(await senderTo(connection, queue), sent), "accepted");
      const [{ message }] = await take(await receiverFrom(connection, queue), 1);
      for (const name of Object.keys(sent).filter((name) => name !== "message_annotations" && name !== "ttl")) {
        assert.deepEqual(message[name], sent[name], name);
      }
      assert.equal(message.message_annotations["x-opt-mine"], "yes");
      assert.ok(message.ttl <= 60000);
    });
  },

  async carries_large_messages_in_many_frames(url, queue) {
    await withConnection(url, async (connection) => {
      const body = rhea.message.data_section(Buffer.alloc(3_000_000, "x"));
      assert.equal(await outcomeOf(await senderTo(connection, queue), { body }), "accepted");
      const [{ message }] = await take(await receiverFrom(connection, queue), 1);
      assert.equal(Buffer.compare(message.body.content, body.content), 0);
    }, { max_frame_size: 4096 });
  },

  async sends_and_receives_settled(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue, { snd_settle_mode: SETTLED });
      sender.send({ body: "x" });
      const receiver = await receiverFrom(connection, queue, { snd_settle_mode: SETTLED });
      const [{ delivery, message }] = await take(receiver, 1);
      assert.equal(message.body, "x");
      assert.equal(delivery.remote_settled, true);
      assert.ok(await isEmpty(receiver));
    });
  },

  async settles_second(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue, { rcv_settle_mode: SECOND, autosettle: false });
      const delivery = sender.send({ body: "x" });
      await once(sender, "accepted");
      assert.equal(delivery.remote_settled, false);
      delivery.update(true);
      const receiver = await receiverFrom(connection, queue, { rcv_settle_mode: SECOND });
      const settled = once(receiver, "settled");
      await take(receiver, 1);
      await settled;
      assert.ok(await isEmpty(receiver));
    });
  },

  async says_what_became_of_a_delivery(url, queue) {
    await withConnection(url, async (connection) => {
      await outcomeOf(await senderTo(connection, queue), { body: "x", first_acquirer: true });
      const receiver = await receiverFrom(connection, queue, { autoaccept: false });
      let [context] = await take(receiver, 1);
      assert.equal(context.message.first_acquirer, true);
      context.delivery.release();
      [context] = await take(receiver, 1);
      assert.ok(!context.message.first_acquirer);
      assert.equal(context.message.delivery_count ?? 0, 0);
      context.delivery.modified({ delivery_failed: true, message_annotations: { "x-opt-why": "busy" } });
      [context] = await take(receiver, 1);
      assert.equal(context.message.delivery_count, 1);
      assert.equal(context.message.message_annotations["x-opt-why"], "busy");
      context.delivery.reject({ condition: "amqp:precondition-failed", description: "no" });
      const [dead] = await take(await receiverFrom(connection, `${queue}.dead`), 1);
      assert.equal(dead.message.body, "x");
      assert.ok(await isEmpty(receiver));
    });
  },

  async hears_what_became_of_its_messages(url, queue) {
    await withConnection(url, async (connection) => {
      const nowhere = await senderTo(connection, `/exchanges/amq.direct/${randomUUID()}`);
      assert.equal(await outcomeOf(nowhere, { body: "x" }), "released");
      const anywhere = await senderTo(connection, {});
      assert.equal(await outcomeOf(anywhere, { to: `/queues/${queue}`, body: "x" }), "accepted");
      assert.equal(await outcomeOf(anywhere, { to: `/exchanges/${randomUUID()}`, body: "x" }), "rejected");
    });
  },

  async drains(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue);
      for (const number of [1, 2, 3]) await outcomeOf(sender, { body: number });
      const receiver = await receiverFrom(connection, queue);
      const seen = [];
      receiver.on("message", (context) => seen.push(context.message.body));
      receiver.add_credit(10);
      receiver.drain_credit();
      await once(receiver, "receiver_drained");
      assert.deepEqual(seen, [1, 2, 3]);
      assert.equal(receiver.credit, 0);
      // What comes later finds no credit, and new credit finds it.
      await outcomeOf(sender, { body: 4 });
      assert.deepEqual(seen, [1, 2, 3]);
      receiver.drain = false;
      await take(receiver, 1);
      assert.deepEqual(seen, [1, 2, 3, 4]);
    });
  },

  async selects(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue);
      for (const [color, weight] of [["red", 1], ["blue", 2], ["blue", 30]]) {
        await outcomeOf(sender, { application_properties: { color, weight }, body: `${color} ${weight}` });
      }
      const filter = rhea.filter.selector("color = 'blue' AND weight BETWEEN 10 AND 50");
      const receiver = await receiverFrom(connection, { address: queue, filter });
      // The answer names the filters that are in force.
      assert.ok(receiver.source.filter["jms-selector"]);
      assert.deepEqual(bodies(await take(receiver, 1)), ["blue 30"]);
      assert.ok(await isEmpty(receiver));
      const rest = await receiverFrom(connection, queue);
      assert.deepEqual(bodies(await take(rest, 2)), ["red 1", "blue 2"]);
    });
  },

  async a_selector_that_is_none_refuses_the_link(url, queue) {
    await withConnection(url, async (connection) => {
      const filter = rhea.filter.selector("color = = 'blue'");
      await assert.rejects(receiverFrom(connection, { address: queue, filter }), {
        condition: "amqp:precondition-failed",
      });
    });
  },

  async browses(url, queue) {
    await withConnection(url, async (connection) => {
      await outcomeOf(await senderTo(connection, queue), { body: "x" });
      const source = { address: queue, distribution_mode: "copy" };
      assert.deepEqual(bodies(await take(await receiverFrom(connection, source), 1)), ["x"]);
      assert.deepEqual(bodies(await take(await receiverFrom(connection, queue), 1)), ["x"]);
    });
  },

  async subscribes_to_a_topic_with_a_pattern(url) {
    await withConnection(url, async (connection) => {
      const topic = randomUUID();
      const pattern = types.wrap_described(`${topic}.#`, "apache.org:legacy-amqp-topic-binding:string");
      const source = { address: "/exchanges/amq.topic", filter: { pattern } };
      const receiver = await receiverFrom(connection, source);
      const anywhere = await senderTo(connection, {});
      for (const key of [`${topic}.a`, `${topic}.a.b`]) {
        assert.equal(await outcomeOf(anywhere, { to: `/exchanges/amq.topic/${key}`, body: key }), "accepted");
      }
      assert.deepEqual(bodies(await take(receiver, 2)), [`${topic}.a`, `${topic}.a.b`]);
    });
  },

  async answers_requests_over_a_dynamic_node(url, queue) {
    await withConnection(url, async (connection) => {
      const replies = await receiverFrom(connection, { dynamic: true });
      await outcomeOf(await senderTo(connection, queue), { body: "?", reply_to: replies.source.address });
      const [{ message }] = await take(await receiverFrom(connection, queue), 1);
      await outcomeOf(await senderTo(connection, {}), { to: message.reply_to, body: "!" });
      assert.deepEqual(bodies(await take(replies, 1)), ["!"]);
    });
  },

  async a_refused_link_leaves_the_session_alone(url, queue) {
    await withConnection(url, async (connection) => {
      const missing = `/queues/${randomUUID()}`;
      await assert.rejects(receiverFrom(connection, missing), { condition: "amqp:not-found" });
      await assert.rejects(senderTo(connection, missing), { condition: "amqp:not-found" });
      assert.equal(await outcomeOf(await senderTo(connection, queue), { body: "x" }), "accepted");
    });
  },

  async detaches_closes_and_attaches_again(url, queue) {
    await withConnection(url, async (connection) => {
      for (const end of ["detach", "close"]) {
        const sender = await senderTo(connection, queue, { name: "same" });
        assert.equal(await outcomeOf(sender, { body: end }), "accepted");
        sender[end]();
        await once(sender, "sender_close");
        sender.remove();
      }
      const session = connection.create_session();
      session.begin();
      await heard(session, "session_open", ["session_error"]);
      const receiver = session.open_receiver({ source: queue, credit_window: 0 });
      await once(receiver, "receiver_open");
      assert.deepEqual(bodies(await take(receiver, 2)), ["detach", "close"]);
      session.close();
      await once(session, "session_close");
    });
  },

  async hears_that_its_queue_was_deleted(url, queue) {
    await withConnection(url, async (connection) => {
      const receiver = await receiverFrom(connection, queue);
      console.log("attached");
      const [context] = await once(receiver, "receiver_error");
      assert.equal(context.receiver.error.condition, "amqp:resource-deleted");
    });
  },

  async a_wrong_password_is_refused(url) {
    const wrong = new URL(url);
    wrong.password = "wrong";
    await assert.rejects(connected(wrong.href), /connection_error|disconnected/);
  },

  async an_unknown_virtual_host_is_refused(url) {
    const connection = connecting(url, { hostname: `vhost:${randomUUID()}` });
    await once(connection, "connection_error");
    assert.equal(connection.error.condition, "amqp:not-found");
  },

  async leaves_messages_for_pika(url, queue) {
    await withConnection(url, async (connection) => {
      const sender = await senderTo(connection, queue);
      await outcomeOf(sender, {
        durable: true,
        priority: 3,
        message_id: "id",
        correlation_id: "correlation",
        content_type: "text/plain",
        application_properties: { text: "t", number: 42, truth: true },
        body: rhea.message.data_section(Buffer.from("octets")),
      });
    });
  },

  async takes_what_pika_left(url, queue) {
    await withConnection(url, async (connection) => {
      const [{ message }] = await take(await receiverFrom(connection, queue), 1);
      assert.equal(message.body.content.toString(), "octets");
      assert.equal(message.durable, true);
      assert.equal(message.priority, 3);
      assert.equal(message.message_id, "id");
      assert.equal(message.correlation_id, "correlation");
      assert.equal(message.content_type, "text/plain");
      assert.deepEqual(message.application_properties, { text: "t", number: 42, truth: true });
      assert.equal(message.message_annotations["x-exchange"], "");
      assert.equal(message.message_annotations["x-routing-key"], queue);
    });
  },
};

module.exports = { scenarios };

if (require.main === module) {
  const [, , name, url, queue] = process.argv;
  const all = { ...scenarios, ...require("./resuming.cjs").scenarios };
  all[name](url, queue).then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}
