// rhea's connections are cut while deliveries are unsettled, and rhea comes back by itself.
//
// rhea attaches again with the same container id and link names. What was unsettled is the
// application's to remember, and its to tell in the attach, so these scenarios are such applications.
"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { once } = require("node:events");
const { types } = require("rhea");
const { cut, connected, isEmpty, receiverFrom, senderTo, take } = require("./connecting.cjs");

const COUNT = 100;
const CUTS = 5;
const WILL_COME_BACK = { reconnect: 1, initial_reconnect_delay: 1 };
// Kept by the broker however long its owner is away.
const lasting = (address) => ({ address, durable: 2, expiry_policy: "never" });
const numbers = Array.from({ length: COUNT }, (_, number) => number);

async function fill(url, queue) {
  const connection = await connected(url);
  const sender = await senderTo(connection, queue);
  const settled = new Promise((resolve) => {
    let count = 0;
    sender.on("settled", () => ++count === COUNT && resolve());
  });
  for (const body of numbers) sender.send({ body });
  await settled;
  connection.close();
  await once(connection, "connection_close");
}

// Tells the next attach which deliveries are unsettled, none of them with an outcome. Set as a field, a
// map would get strings for keys, and tags are binary; `value` is the list of an attach's fields.
function rememberUnsettled(link, tags) {
  const UNSETTLED = 7;
  link.local.attach.value[UNSETTLED] = types.wrap(new Map([...tags].map((tag) => [Buffer.from(tag), null])));
}

const scenarios = {
  async a_consumer_cut_off_again_and_again_gets_each_message_once(url, queue) {
    await fill(url, queue);
    const connection = await connected(url, { container_id: randomUUID(), ...WILL_COME_BACK });
    const options = { name: "consumer", autoaccept: false };
    const receiver = await receiverFrom(connection, lasting(queue), options);
    const bodies = new Map();
    const unsettled = new Set();
    let [cuts, received, isCut] = [0, 0, false];
    await new Promise((resolve) => {
      receiver.on("message", ({ message, delivery }) => {
        // What lies in the socket of a cut connection never arrived.
        if (isCut) return;
        // A delivery that comes again is known by its tag.
        const tag = delivery.tag.toString("latin1");
        assert.equal(bodies.get(tag) ?? message.body, message.body);
        bodies.set(tag, message.body);
        received += 1;
        if (cuts === CUTS || received % 2) {
          // On a connection that is about to be cut nobody may hear it.
          delivery.accept();
          unsettled.delete(tag);
        } else unsettled.add(tag);
        if (bodies.size === COUNT && unsettled.size === 0) resolve();
        if (cuts === CUTS || bodies.size < 10 * (cuts + 1)) return;
        [cuts, isCut] = [cuts + 1, true];
        rememberUnsettled(receiver, [...unsettled].map((text) => Buffer.from(text, "latin1")));
        cut(connection);
      });
      receiver.on("receiver_open", () => {
        isCut = false;
        receiver.add_credit(COUNT);
      });
      receiver.add_credit(COUNT);
    });
    assert.ok(received > COUNT);
    assert.deepEqual([...bodies.values()].sort((a, b) => a - b), numbers);
    receiver.close();
    await once(receiver, "receiver_close");
    assert.ok(await isEmpty(await receiverFrom(connection, queue)));
  },

  async what_an_absent_consumer_has_is_for_nobody_else(url, queue) {
    await fill(url, queue);
    const container_id = randomUUID();
    const first = await connected(url, { container_id });
    const options = { name: "consumer", autoaccept: false };
    const contexts = await take(await receiverFrom(first, lasting(queue), options), 10);
    const had = contexts.map(({ message }) => message.body);
    first.on("disconnected", () => {});
    cut(first);
    const other = await connected(url);
    const rest = await take(await receiverFrom(other, queue), COUNT - 10);
    assert.deepEqual(rest.map(({ message }) => message.body), numbers.slice(10));
    const again = await connected(url, { container_id });
    const resumed = await take(await receiverFrom(again, lasting(queue), options), 10);
    assert.deepEqual(resumed.map(({ message }) => message.body), had);
    assert.deepEqual(
      resumed.map(({ delivery }) => delivery.tag),
      contexts.map(({ delivery }) => delivery.tag),
    );
  },

  async a_producer_that_did_not_hear_its_outcomes_repeats_nothing(url, queue) {
    const connection = await connected(url, { container_id: randomUUID(), ...WILL_COME_BACK });
    const sender = await senderTo(connection, lasting(queue), { name: "producer" });
    const unsettled = new Set(numbers.map(String));
    let answered = 0;
    const all = new Promise((resolve) =>
      sender.on("accepted", ({ delivery }) => {
        answered += 1;
        unsettled.delete(delivery.tag.toString());
        if (unsettled.size === 0) resolve();
      }),
    );
    // Deaf, so that the broker has half of them and this side does not know it.
    connection.socket.pause();
    for (const body of numbers.slice(0, COUNT / 2)) sender.send({ body }, Buffer.from(String(body)));
    const other = await connected(url);
    const browser = await receiverFrom(other, { address: queue, distribution_mode: "copy" });
    await take(browser, COUNT / 2);
    rememberUnsettled(sender, unsettled);
    cut(connection);
    await once(sender, "sendable");
    // The broker tells in its attach what it has of what was named.
    assert.equal(Object.keys(sender.remote.attach.unsettled).length, COUNT / 2);
    for (const tag of unsettled) sender.send({ body: Number(tag) }, Buffer.from(tag));
    await all;
    assert.equal(answered, COUNT);
    const receiver = await receiverFrom(other, queue);
    const contexts = await take(receiver, COUNT);
    assert.deepEqual(contexts.map(({ message }) => message.body), numbers);
    assert.ok(await isEmpty(receiver));
  },

  async a_link_is_stolen_by_its_owner(url, queue) {
    const container_id = randomUUID();
    const [first, second] = [await connected(url, { container_id }), await connected(url, { container_id })];
    const loser = await receiverFrom(first, lasting(queue), { name: "consumer" });
    const lost = once(loser, "receiver_error");
    await receiverFrom(second, lasting(queue), { name: "consumer" });
    await lost;
    assert.equal(loser.error.condition, "amqp:link:stolen");
  },
};

module.exports = { scenarios };
