// Promises around rhea's events, and connections over TCP or WebSocket, as the address says.
"use strict";

const rhea = require("rhea");
const { once } = require("node:events");

// One event of a link or connection; rejects when an error comes instead. A refusal opens first and
// then closes with its error, so `isGranted` tells whether what was opened is there.
function heard(emitter, event, errors, isGranted = () => true) {
  return new Promise((resolve, reject) => {
    emitter.once(event, (context) => isGranted(context) && resolve(context));
    for (const name of errors) {
      emitter.once(name, (context) => {
        const origin = context.receiver ?? context.sender ?? context.connection;
        reject(Object.assign(new Error(`${name}: ${origin.error}`), { condition: origin.error?.condition }));
      });
    }
  });
}

function optionsFor(url, more) {
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  const options = { username, password, reconnect: false, ...more };
  if (protocol !== "ws:") return { host: hostname, port: Number(port), ...options };
  const open = rhea.websocket_connect(require("ws"));
  return { connection_details: open(`ws://${hostname}:${port}${pathname}`, ["amqp"], {}), ...options };
}

function connecting(url, options = {}) {
  const { container_id, ...others } = options;
  const container = rhea.create_container(container_id ? { id: container_id } : {});
  return container.connect(optionsFor(url, others));
}

async function connected(url, options) {
  const connection = connecting(url, options);
  await heard(connection, "connection_open", ["connection_error", "disconnected"]);
  return connection;
}

async function withConnection(url, story, options) {
  const connection = await connected(url, options);
  await story(connection);
  connection.close();
  await once(connection, "connection_close");
}

async function senderTo(connection, target, options = {}) {
  const sender = connection.open_sender({ target, ...options });
  await heard(sender, "sendable", ["sender_error"]);
  return sender;
}

// Without credit, or messages would come before anybody listens.
async function receiverFrom(connection, source, options = {}) {
  const receiver = connection.open_receiver({ source, credit_window: 0, ...options });
  await heard(receiver, "receiver_open", ["receiver_error"], () => receiver.source?.address);
  return receiver;
}

// Sends one message; resolves to the name of its outcome.
function outcomeOf(sender, message) {
  const delivery = sender.send(message);
  return new Promise((resolve) => {
    for (const outcome of ["accepted", "rejected", "released"]) {
      sender.on(outcome, (context) => context.delivery === delivery && resolve(outcome));
    }
  });
}

// Gives credit for `count` messages; resolves to the contexts of their events.
function take(receiver, count) {
  return new Promise((resolve) => {
    const contexts = [];
    receiver.on("message", function listen(context) {
      contexts.push(context);
      if (contexts.length < count) return;
      receiver.removeListener("message", listen);
      resolve(contexts);
    });
    receiver.add_credit(count);
  });
}

// Whether a receiver that has been given credit for one more gets nothing, as its drain tells.
function isEmpty(receiver) {
  return new Promise((resolve) => {
    receiver.once("message", () => resolve(false));
    receiver.once("receiver_drained", () => resolve(true));
    receiver.add_credit(1);
    receiver.drain_credit();
  });
}

// The socket ends as a failing network would end it. rhea hears of its own sockets by errors only.
function cut(connection) {
  connection.socket.destroy(new Error("cut"));
}

module.exports = {
  connected,
  connecting,
  cut,
  heard,
  isEmpty,
  outcomeOf,
  receiverFrom,
  senderTo,
  take,
  withConnection,
};
