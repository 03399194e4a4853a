import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic exactly once, in transactions that hold the copies and the offsets of the originals, until it is
 * killed, or stopped: then it ends its transaction and leaves the groups.
 *
 * <p>Arguments: bootstrap, number of this copier, input topic, records per transaction, then OUTPUT:PROTOCOL of each
 * group that copies: a topic and {@code classic} or {@code consumer}. Each group has a thread of its own, and the name
 * of its output. A record keeps its partition. Lines out: {@code copied OUTPUT COUNT} for each transaction,
 * {@code failed OUTPUT REASON} for each that is given up.
 */
public final class MessageCopier {
    private static final Duration POLL = Duration.ofMillis(100);
    private static PrintStream lines;
    private static volatile boolean isStopping;
    private final String bootstrap;
    private final String number;
    private final String input;
    private final String perTransaction;
    private final String output;
    private final String protocol;
    private KafkaConsumer<String, String> consumer;
    private KafkaProducer<String, String> producer;

    private MessageCopier(String[] arguments, String[] group) {
        bootstrap = arguments[0];
        number = arguments[1];
        input = arguments[2];
        perTransaction = arguments[3];
        output = group[0];
        protocol = group[1];
    }

    public static void main(String[] arguments) {
        lines = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        List<Thread> threads = new ArrayList<>();
        for (int i = 4; i < arguments.length; i++) {
            MessageCopier copier = new MessageCopier(arguments, arguments[i].split(":"));
            threads.add(new Thread(copier::run));
        }
        threads.forEach(Thread::start);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(threads)));
    }

    private static void stop(List<Thread> threads) {
        isStopping = true;
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    private void run() {
        consumer = newConsumer();
        consumer.subscribe(Set.of(input));
        copyUntilStopped();
        if (producer != null) {
            producer.close();
        }
        consumer.close();
    }

    private void copyUntilStopped() {
        while (!isStopping) {
            try {
                if (producer == null) {
                    producer = newProducer();
                    producer.initTransactions();
                }
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (!records.isEmpty()) {
                    copy(records);
                    print("copied " + output + " " + records.count());
                }
            } catch (KafkaException error) {
                print("failed " + output + " " + error);
                recover();
            }
        }
    }

    private void copy(ConsumerRecords<String, String> records) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(output, record.partition(), record.key(), record.value()));
            positions.put(new TopicPartition(input, record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        producer.commitTransaction();
    }

    /** Gives the transaction up, and reads again from where the last one ended. */
    private void recover() {
        try {
            producer.abortTransaction();
        } catch (KafkaException | IllegalStateException error) {
            // Nothing can be done with this producer: the next one of its id ends what it has begun.
            print("replaced " + output + " " + error);
            producer.close(Duration.ZERO);
            producer = null;
        }
        try {
            Set<TopicPartition> assigned = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(assigned);
            for (TopicPartition partition : assigned) {
                OffsetAndMetadata position = committed.get(partition);
                consumer.seek(partition, position == null ? 0 : position.offset());
            }
        } catch (KafkaException error) {
            // One that joins anew begins where the last transaction ended, too.
            print("left " + output + " " + error);
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
            consumer = newConsumer();
            consumer.subscribe(Set.of(input));
        }
    }

    private KafkaConsumer<String, String> newConsumer() {
        Properties properties = common();
        properties.put("group.id", output);
        properties.put("group.protocol", protocol);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", perTransaction);
        properties.put("fetch.max.wait.ms", "100");
        properties.put("default.api.timeout.ms", "30000");
        if (protocol.equals("classic")) {
            properties.put("session.timeout.ms", "3000");
            properties.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private KafkaProducer<String, String> newProducer() {
        Properties properties = common();
        properties.put("transactional.id", output + "-" + number);
        properties.put("transaction.timeout.ms", "10000");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("request.timeout.ms", "5000");
        properties.put("metadata.max.age.ms", "2000");
        return properties;
    }

    private static synchronized void print(String line) {
        lines.println(line);
    }
}
