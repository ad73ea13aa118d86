// A sender and a receiver that survive the servers of a cluster, as `failover/errand.py` describes them.
//
// rhea asks the function `connection_details` for the next address, attaches its links again by itself,
// and leaves unsettled messages to the application.
"use strict";

const rhea = require("rhea");

const PAUSE_MS = 100;
const REST_MS = 5;
const WINDOW = 20;
const AGAIN = " again";
const [role, queue, servers] = process.argv.slice(2);

function connected() {
  const addresses = servers.split(",").map((server) => server.split(":"));
  let turn = 0;
  const connection_details = () => {
    const [host, port] = addresses[turn++ % addresses.length];
    return { host, port: Number(port) };
  };
  const options = { username: "guest", password: "guest", reconnect: PAUSE_MS };
  const connection = rhea.connect({ connection_details, ...options });
  connection.on("disconnected", () => {});
  connection.on("connection_error", () => {});
  connection.on("connection_close", () => {});
  return connection;
}

function send(connection) {
  const sender = connection.open_sender(queue);
  const sent = new Map();
  const doubtful = [];
  // rhea keeps what is sent without a connection, and would send it beside the repetition.
  let [next, isTold, isAttached] = [0, false, false];
  process.stdin.on("end", () => (isTold = true)).resume();
  sender.on("accepted", ({ delivery }) => {
    if (sent.has(delivery)) console.log(`confirmed ${sent.get(delivery)}`);
    sent.delete(delivery);
  });
  sender.on("sender_open", () => (isAttached = true));
  connection.on("disconnected", () => {
    isAttached = false;
    doubtful.push(...sent.values());
    sent.clear();
  });
  const timer = setInterval(() => {
    if (isTold && doubtful.length === 0 && sent.size === 0) {
      clearInterval(timer);
      connection.close();
    } else if (isAttached && sender.sendable() && sent.size < WINDOW && (doubtful.length > 0 || !isTold)) {
      const isAgain = doubtful.length > 0;
      const number = isAgain ? doubtful.shift() : next++;
      const body = `${number}${isAgain ? AGAIN : ""}`;
      // The broker says whether it is still true when it delivers the message.
      sent.set(sender.send({ body, durable: true, first_acquirer: true }), number);
    }
  }, REST_MS);
}

function receive(connection) {
  const receiver = connection.open_receiver({ source: queue, credit_window: WINDOW });
  receiver.on("message", ({ message }) => {
    const isFirst = message.first_acquirer && !message.body.endsWith(AGAIN);
    console.log(`received ${message.body.replace(AGAIN, "")} ${isFirst ? "first" : "flagged"}`);
  });
}

(role === "send" ? send : receive)(connected());
