// What the Go client (amqp091-go) does with a broker: one scenario per call.
//
//	client SCENARIO URL      ends with 0 when everything was as it should be
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 10 * time.Second

var scenarios = map[string]func(url string){
	"routes_through_exchanges_to_a_consumer_with_prefetch": routes,
	"confirms_nacks_and_returns":                           confirms,
	"gets_nacks_and_dead_letters":                          gets,
	"commits_and_rolls_back":                               transacts,
	"a_deleted_queue_cancels_the_consumer":                 isCancelled,
	"a_channel_error_leaves_the_connection":                breaksChannel,
	"field_types_and_large_bodies_come_back":               carries,
	"calls_a_procedure_over_direct_reply_to":               calls,
	"is_refused_with_a_wrong_password_or_vhost":            isRefused,
	"survives_idle_heartbeats":                             idles,
	"hears_of_a_dropped_connection":                        isDropped,
	"closes_from_many_goroutines_at_once":                  closesAtOnce,
	"closes_while_it_publishes":                            closesWhilePublishing,
}

func main() {
	scenario, known := scenarios[os.Args[1]]
	check(known, "no scenario ", os.Args[1])
	scenario(os.Args[2])
}

func check(truth bool, complaint ...interface{}) {
	if !truth {
		panic(fmt.Sprint(complaint...))
	}
}

func must(err error) {
	check(err == nil, err)
}

func unique(name string) string {
	return fmt.Sprintf("interop.%s.%d.%d", name, os.Getpid(), time.Now().UnixNano())
}

func connect(url string) (*amqp.Connection, *amqp.Channel) {
	connection, err := amqp.Dial(url)
	must(err)
	return connection, open(connection)
}

func open(connection *amqp.Connection) *amqp.Channel {
	channel, err := connection.Channel()
	must(err)
	return channel
}

func exclusiveQueue(channel *amqp.Channel, name string, arguments amqp.Table) string {
	queue, err := channel.QueueDeclare(name, false, false, true, false, arguments)
	must(err)
	return queue.Name
}

func publish(channel *amqp.Channel, exchange, key string, mandatory bool, message amqp.Publishing) {
	must(channel.PublishWithContext(context.Background(), exchange, key, mandatory, false, message))
}

func text(body string) amqp.Publishing {
	return amqp.Publishing{Body: []byte(body)}
}

func receive(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery, open := <-deliveries:
		check(open, "the consumer ended")
		return delivery
	case <-time.After(patience):
		panic("no delivery came")
	}
}

// Dead-lettering is not part of any answer, so the first get may come too early.
func getSoon(channel *amqp.Channel, queue string) amqp.Delivery {
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
		delivery, found, err := channel.Get(queue, true)
		must(err)
		if found {
			return delivery
		}
	}
	panic("no message came")
}

func routes(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	fanout, topic := unique("fanout"), unique("topic")
	must(channel.ExchangeDeclare(fanout, "fanout", false, true, false, false, nil))
	must(channel.ExchangeDeclare(topic, "topic", false, true, false, false, nil))
	must(channel.ExchangeBind(topic, "", fanout, false, nil))
	queue := exclusiveQueue(channel, "", nil)
	must(channel.QueueBind(queue, "a.#", topic, false, nil))
	must(channel.Qos(1, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	for _, key := range []string{"a.1", "b.1", "a.2.x"} {
		publish(channel, fanout, key, false, text(key))
	}
	for _, expected := range []string{"a.1", "a.2.x"} {
		delivery := receive(deliveries)
		check(string(delivery.Body) == expected, "got ", string(delivery.Body))
		check(delivery.Exchange == fanout && delivery.RoutingKey == expected)
		must(delivery.Ack(false))
	}
	must(channel.Cancel("", false))
	must(channel.Close())
}

func confirms(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	must(channel.Confirm(false))
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	full := exclusiveQueue(channel, "", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	// Not a deferred confirmation: amqp091-go 1.5 files it only after the message was sent, and
	// waits for ever for an ack that was faster.
	confirmations := channel.NotifyPublish(make(chan amqp.Confirmation, 3))
	publish(channel, "", full, false, text("fits"))
	publish(channel, "", full, false, text("does not"))
	publish(channel, "", "no-such-queue", true, amqp.Publishing{MessageId: "lost"})
	for tag, expected := range []bool{true, false, true} {
		select {
		case confirmation := <-confirmations:
			check(confirmation.DeliveryTag == uint64(tag+1), confirmation)
			check(confirmation.Ack == expected, confirmation)
		case <-time.After(patience):
			panic("no confirmation came")
		}
	}
	returned := <-returns
	check(returned.ReplyCode == 312 && returned.MessageId == "lost", returned)
}

func gets(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	graveyard := exclusiveQueue(channel, "", nil)
	queue := exclusiveQueue(channel, "", amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard})
	_, found, err := channel.Get(queue, false)
	must(err)
	check(!found, "the queue is empty")
	publish(channel, "", queue, false, text("twice"))
	first, found, err := channel.Get(queue, false)
	must(err)
	check(found && !first.Redelivered)
	must(first.Nack(false, true))
	second, found, err := channel.Get(queue, false)
	must(err)
	check(found && second.Redelivered)
	must(second.Reject(false))
	deaths := getSoon(channel, graveyard).Headers["x-death"].([]interface{})
	death := deaths[0].(amqp.Table)
	check(death["reason"] == "rejected" && death["queue"] == queue, death)
	check(death["count"] == int64(1), death)
	check(death["time"].(time.Time).Unix() > 0, death)
	publish(channel, "", queue, false, text("purged"))
	purged, err := channel.QueuePurge(queue, false)
	must(err)
	check(purged == 1, purged)
	_, err = channel.QueueDelete(queue, true, true, false)
	must(err)
}

func transacts(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	queue := exclusiveQueue(channel, "", nil)
	must(channel.Tx())
	publish(channel, "", queue, false, text("regretted"))
	must(channel.TxRollback())
	publish(channel, "", queue, false, text("meant"))
	must(channel.TxCommit())
	delivery, found, err := channel.Get(queue, true)
	must(err)
	check(found && string(delivery.Body) == "meant")
	check(delivery.MessageCount == 0)
}

func isCancelled(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	queue, err := channel.QueueDeclare(unique("doomed"), false, false, false, false, nil)
	must(err)
	cancels := channel.NotifyCancel(make(chan string, 1))
	deliveries, err := channel.Consume(queue.Name, "my-tag", false, false, false, false, nil)
	must(err)
	_, err = open(connection).QueueDelete(queue.Name, false, false, false)
	must(err)
	check(<-cancels == "my-tag")
	_, more := <-deliveries
	check(!more, "the deliveries end with the consumer")
	exclusiveQueue(channel, "", nil)
}

func breaksChannel(url string) {
	connection, channel := connect(url)
	defer connection.Close()
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	_, err := channel.QueueDeclarePassive(unique("missing"), false, false, false, false, nil)
	check(err.(*amqp.Error).Code == amqp.NotFound, err)
	check((<-closed).Code == amqp.NotFound)
	other, name := open(connection), unique("classic")
	exclusiveQueue(other, name, nil)
	_, err = other.QueueDeclare(name, false, false, true, false, amqp.Table{"x-max-length": 1})
	check(err.(*amqp.Error).Code == amqp.PreconditionFailed, err)
	exclusiveQueue(open(connection), "", nil)
}

func carries(url string) {
	moment := time.Unix(1709209801, 0)
	headers := amqp.Table{
		"text": "grün", "truth": true, "lie": false, "unsigned octet": byte(200),
		"octet": int8(-7), "short": int16(-300), "long": int32(-70000), "large": int64(1 << 40),
		"float": float32(0.1), "double": 0.1, "money": amqp.Decimal{Scale: 3, Value: 12345},
		"moment": moment, "octets": []byte{0, 255}, "nothing": nil,
		"table": amqp.Table{"inner": amqp.Table{"deep": []interface{}{int32(1), "two"}}},
		"list":  []interface{}{true, nil, []interface{}{0.5}, amqp.Table{}},
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 65_584)
	for _, frameSize := range []int{4096, 131072, 0} {
		connection, err := amqp.DialConfig(url, amqp.Config{FrameSize: frameSize})
		must(err)
		channel := open(connection)
		queue := exclusiveQueue(channel, "", nil)
		deliveries, err := channel.Consume(queue, "", true, true, false, false, nil)
		must(err)
		publish(channel, "", queue, false, amqp.Publishing{
			Headers: headers, Body: body, DeliveryMode: amqp.Persistent, Priority: 5,
			Expiration: "60000", Timestamp: moment, UserId: "guest", CorrelationId: "c"})
		delivery := receive(deliveries)
		check(bytes.Equal(delivery.Body, body), "the body was changed")
		check(reflect.DeepEqual(delivery.Headers, headers), delivery.Headers)
		check(delivery.Timestamp.Equal(moment) && delivery.Expiration == "60000")
		check(delivery.UserId == "guest" && delivery.Priority == 5)
		must(connection.Close())
	}
}

func calls(url string) {
	connection, server := connect(url)
	defer connection.Close()
	queue := exclusiveQueue(server, "", nil)
	requests, err := server.Consume(queue, "", true, false, false, false, nil)
	must(err)
	caller := open(connection)
	answers, err := caller.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	must(err)
	publish(caller, "", queue, false, amqp.Publishing{
		Body: []byte("shout"), ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "7"})
	request := receive(requests)
	publish(server, "", request.ReplyTo, false, amqp.Publishing{
		Body: bytes.ToUpper(request.Body), CorrelationId: request.CorrelationId})
	answer := receive(answers)
	check(string(answer.Body) == "SHOUT" && answer.CorrelationId == "7", answer)
}

func isRefused(url string) {
	_, err := amqp.Dial(strings.Replace(url, "guest:guest", "guest:wrong", 1))
	check(err == amqp.ErrCredentials, err)
	_, err = amqp.Dial(url[:strings.LastIndex(url, "/")] + "/no-such-vhost")
	check(err == amqp.ErrVhost, err)
}

func idles(url string) {
	connection, err := amqp.DialConfig(url, amqp.Config{Heartbeat: time.Second})
	must(err)
	defer connection.Close()
	time.Sleep(3200 * time.Millisecond) // idle for over three intervals: the point of this
	exclusiveQueue(open(connection), "", nil)
}

func isDropped(url string) {
	connection, _ := connect(url)
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	fmt.Println("connected")
	select {
	case <-closed:
	case <-time.After(patience):
		panic("nobody said that the connection was lost")
	}
	check(connection.IsClosed())
	again, _ := connect(url)
	must(again.Close())
}

// The client's own TestConcurrentClose, as often as it takes to meet a race: every close is the
// first one, or finds the connection closed. None may hear that the broker broke the socket.
func closesAtOnce(url string) {
	for round := 0; round < 30; round++ {
		connection, err := amqp.Dial(url)
		must(err)
		var closers sync.WaitGroup
		for closer := 0; closer < 32; closer++ {
			closers.Add(1)
			go func() {
				defer closers.Done()
				err := connection.Close()
				// One that writes while another has closed the client's own socket is told so.
				isLate := err == amqp.ErrClosed || errors.Is(err, net.ErrClosed)
				check(err == nil || isLate, "round ", round, ": ", err)
			}()
		}
		closers.Wait()
	}
}

// What other goroutines have written when the close is answered must not break the socket.
func closesWhilePublishing(url string) {
	for round := 0; round < 30; round++ {
		connection, channel := connect(url)
		queue := exclusiveQueue(channel, "", nil)
		var publishers sync.WaitGroup
		for publisher := 0; publisher < 4; publisher++ {
			publishers.Add(1)
			channel := open(connection)
			go func() {
				defer publishers.Done()
				body := amqp.Publishing{Body: make([]byte, 50000)}
				for {
					err := channel.PublishWithContext(context.Background(), "", queue, false, false, body)
					if err != nil {
						isLate := err == amqp.ErrClosed || errors.Is(err, net.ErrClosed)
						check(isLate, "round ", round, ": ", err)
						return
					}
				}
			}()
		}
		must(connection.Close())
		publishers.Wait()
	}
}
