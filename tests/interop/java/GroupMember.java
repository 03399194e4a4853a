import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The group member for every generation of kafka-clients: compiled against 0.10.2, run with each version's jars.
 * {@code tests/support/member_program.py} describes its commands and events.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final long COMMIT_MS = 200;
    private static final long POLL_MS = 100;
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    private static final Method POLL_DURATION = method("poll", Duration.class);
    private static final Method POLL_LONG = method("poll", long.class);
    private static final Map<String, String> END = Collections.emptyMap();

    private static final LinkedBlockingQueue<Map<String, String>> JOINS = new LinkedBlockingQueue<>();
    private static volatile boolean leaving;
    private static PrintStream events;

    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<Integer, Long> positions = new HashMap<>();
    private final Set<TopicPartition> owned = new HashSet<>();

    public static void main(String[] arguments) throws Exception {
        events = new PrintStream(System.out, true, "UTF-8");
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            end();
            try {
                main.join(10_000);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread reader = new Thread(GroupMember::read);
        reader.setDaemon(true);
        reader.start();
        print("{\"event\": \"ready\"}");
        for (Map<String, String> options = JOINS.take(); options != END; options = JOINS.take()) {
            try {
                new GroupMember(options).run();
                print("{\"event\": \"left\"}");
            } catch (Exception error) {
                print("{\"event\": \"failed\", \"reason\": " + quoted(error) + "}");
            }
        }
    }

    private static void read() {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                if (!words[0].equals("join")) {
                    leaving = true;
                    continue;
                }
                Map<String, String> options = new HashMap<>();
                for (int i = 1; i < words.length; i++) {
                    String[] pair = words[i].split("=", 2);
                    options.put(pair[0], pair[1]);
                }
                leaving = false;
                JOINS.add(options);
            }
        } catch (IOException broken) {
            System.err.println(broken);
        }
        end();
    }

    private static void end() {
        leaving = true;
        JOINS.add(END);
    }

    private GroupMember(Map<String, String> options) {
        topic = options.get("topic");
        consumer = new KafkaConsumer<>(
            properties(options), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Properties properties(Map<String, String> options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("group.id", options.get("group"));
        properties.put("client.id", options.get("client"));
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("reconnect.backoff.ms", "50");
        properties.put("retry.backoff.ms", "50");
        // Who begins with the bootstrap servers anew, because the only broker is away, forgets the topics; a
        // leader takes that for a change of them and has the group rebalance (KIP-1102, the default since 4.0).
        properties.put("metadata.recovery.strategy", "none");
        if (options.containsKey("instance")) {
            properties.put("group.instance.id", options.get("instance"));
        }
        String assignor = options.get("assignor");
        if (assignor.equals("consumer")) {
            properties.put("group.protocol", "consumer");
            return properties;
        }
        properties.put("partition.assignment.strategy",
            ASSIGNORS + (assignor.equals("range") ? "RangeAssignor" : "CooperativeStickyAssignor"));
        properties.put("session.timeout.ms", options.get("session"));
        properties.put("heartbeat.interval.ms", options.get("heartbeat"));
        return properties;
    }

    private void run() throws Exception {
        try {
            consumer.subscribe(Collections.singletonList(topic), this);
            Map<Integer, Long> committed = new HashMap<>();
            long due = System.currentTimeMillis();
            while (!leaving) {
                poll();
                if (System.currentTimeMillis() >= due && !positions.equals(committed)) {
                    committed = new HashMap<>(positions);
                    commit(committed);
                    due = System.currentTimeMillis() + COMMIT_MS;
                }
            }
        } catch (Exception failed) {
            consumer.close();
            throw failed;
        }
        // Before 2.4 closing told no listener.
        commit(new HashMap<>(positions));
        consumer.close();
        if (!owned.isEmpty()) {
            print(change("revoked", owned));
        }
    }

    private void poll() throws Exception {
        ConsumerRecords<byte[], byte[]> found = next();
        for (TopicPartition place : found.partitions()) {
            StringBuilder offsets = new StringBuilder();
            StringBuilder values = new StringBuilder();
            for (ConsumerRecord<byte[], byte[]> record : found.records(place)) {
                offsets.append(offsets.length() == 0 ? "" : ", ").append(record.offset());
                values.append(values.length() == 0 ? "" : ", ")
                    .append(quoted(new String(record.value(), StandardCharsets.UTF_8)));
                positions.put(place.partition(), record.offset() + 1);
            }
            print("{\"event\": \"records\", \"partition\": " + place.partition() + ", \"offsets\": [" + offsets
                + "], \"values\": [" + values + "]}");
        }
    }

    @SuppressWarnings("unchecked")
    private ConsumerRecords<byte[], byte[]> next() throws Exception {
        try {
            return (ConsumerRecords<byte[], byte[]>) (POLL_DURATION != null
                ? POLL_DURATION.invoke(consumer, Duration.ofMillis(POLL_MS))
                : POLL_LONG.invoke(consumer, POLL_MS));
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exception) {
                throw (Exception) wrapped.getCause();
            }
            throw wrapped;
        }
    }

    private void commit(Map<Integer, Long> wanted) {
        if (wanted.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        wanted.forEach((number, offset) ->
            offsets.put(new TopicPartition(topic, number), new OffsetAndMetadata(offset)));
        try {
            consumer.commitSync(offsets);
        } catch (CommitFailedException | RetriableException refused) {
            print("{\"event\": \"refused\", \"reason\": " + quoted(refused) + "}");
            return;
        } catch (KafkaException refused) {
            // A rebalance in progress has had a class of its own since 2.4 only.
            if (!refused.getClass().getSimpleName().equals("RebalanceInProgressException")) {
                throw refused;
            }
            print("{\"event\": \"refused\", \"reason\": " + quoted(refused) + "}");
            return;
        }
        print("{\"event\": \"committed\", \"offsets\": {" + wanted.entrySet().stream()
            .map(each -> "\"" + each.getKey() + "\": " + each.getValue()).collect(Collectors.joining(", "))
            + "}}");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        owned.addAll(partitions);
        print(change("assigned", partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Map<Integer, Long> given = new HashMap<>();
        for (TopicPartition each : partitions) {
            Long position = positions.remove(each.partition());
            if (position != null) {
                given.put(each.partition(), position);
            }
        }
        commit(given);
        owned.removeAll(partitions);
        print(change("revoked", partitions));
    }

    /** Part of the interface since 2.4. */
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> positions.remove(each.partition()));
        owned.removeAll(partitions);
        print(change("lost", partitions));
    }

    private static String change(String event, Collection<TopicPartition> partitions) {
        return "{\"event\": \"" + event + "\", \"partitions\": " + partitions.stream()
            .map(TopicPartition::partition).sorted().collect(Collectors.toList()) + "}";
    }

    /** Adds the moment by the system's monotonic clock, which nanoTime is. */
    private static synchronized void print(String line) {
        events.println(line.substring(0, line.length() - 1) + ", \"at\": " + System.nanoTime() / 1e9 + "}");
    }

    private static String quoted(Object text) {
        return '"' + text.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + '"';
    }

    private static Method method(String name, Class<?>... parameters) {
        try {
            return KafkaConsumer.class.getMethod(name, parameters);
        } catch (NoSuchMethodException otherGeneration) {
            return null;
        }
    }
}
