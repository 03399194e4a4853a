import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The transactional program built on Java's client: compiled against 2.8, run with each version's jars;
 * tests/support/transaction_program.py describes its commands.
 */
public final class TransactionClient {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();
    private static String bootstrap;
    private static PrintStream lines;

    public static void main(String[] arguments) throws Exception {
        lines = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        answer("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Map<String, String> options = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] option = words[i].split("=", 2);
                options.put(option[0], option[1]);
            }
            try {
                perform(words[0], options);
                answer("ok");
            } catch (Exception error) {
                answer("refused " + describe(error));
            }
        }
        System.exit(0);
    }

    private static void perform(String command, Map<String, String> options) throws Exception {
        KafkaProducer<String, String> producer = PRODUCERS.get(options.get("producer"));
        switch (command) {
            case "open":
                open(options);
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "send":
                send(producer, options);
                break;
            case "offsets":
                offsets(producer, options);
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "close":
                PRODUCERS.remove(options.get("producer")).close(Duration.ZERO);
                break;
            case "read":
                read(options);
                break;
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private static void open(Map<String, String> options) {
        bootstrap = options.get("bootstrap");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", options.get("id"));
        properties.put("transaction.timeout.ms", options.get("timeout"));
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        KafkaProducer<String, String> made =
            new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        PRODUCERS.put(options.get("producer"), made);
        made.initTransactions();
    }

    private static void send(KafkaProducer<String, String> producer, Map<String, String> options) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        int partitions = Integer.parseInt(options.get("partitions"));
        for (int number = 0; number < Integer.parseInt(options.get("count")); number++) {
            for (int partition = 0; partition < partitions; partition++) {
                String value = options.get("tag") + "-" + partition + "-" + number;
                sent.add(producer.send(
                    new ProducerRecord<>(options.get("topic"), partition, "key-" + number, value)));
            }
        }
        producer.flush();
        for (Future<?> each : sent) {
            each.get();
        }
    }

    /** Through the metadata of a consumer that has never joined: later versions know no other way. */
    private static void offsets(KafkaProducer<String, String> producer, Map<String, String> options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", options.get("group"));
        TopicPartition partition = new TopicPartition(options.get("topic"), 0);
        OffsetAndMetadata position = new OffsetAndMetadata(Long.parseLong(options.get("position")));
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            producer.sendOffsetsToTransaction(Collections.singletonMap(partition, position), consumer.groupMetadata());
        }
    }

    private static void read(Map<String, String> options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("isolation.level", options.get("isolation"));
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        properties.put("fetch.max.wait.ms", "100");
        Map<TopicPartition, Integer> slots = new HashMap<>();
        Map<TopicPartition, Long> last = new HashMap<>();
        for (String word : options.get("wanted").split(",")) {
            String[] part = word.split(":");
            TopicPartition partition = new TopicPartition(part[0], Integer.parseInt(part[1]));
            last.put(partition, Long.parseLong(part[2]));
            slots.put(partition, slots.size());
        }
        Set<TopicPartition> missing = new HashSet<>(last.keySet());
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(slots.keySet());
            for (TopicPartition partition : slots.keySet()) {
                consumer.seek(partition, 0);
            }
            long end = System.nanoTime() + DEADLINE.toNanos();
            while (!missing.isEmpty()) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("still missing: " + missing);
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    lines.println("record " + slots.get(partition) + " " + record.offset() + " " + record.key() + " "
                        + record.value());
                    if (record.offset() >= last.get(partition)) {
                        missing.remove(partition);
                    }
                }
            }
        }
    }

    /** The names of an error and its causes, and its message, in one line. */
    private static String describe(Throwable error) {
        List<String> names = new ArrayList<>();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            names.add(cause.getClass().getSimpleName());
        }
        return String.join(" < ", names) + ": " + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
    }

    private static void answer(String line) {
        lines.println(line);
        lines.flush();
    }

    private TransactionClient() {}
}
