import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One client for every generation of kafka-clients: compiled against 0.10.2, run with each version's jars.
 * What 0.10.2 lacks (headers, the admin client, poll(Duration)) is reached by reflection.
 *
 * <pre>
 * create  BOOTSTRAP TOPIC PARTITIONS
 * produce BOOTSTRAP TOPIC PARTITION:CODEC:ACKS:IDEMPOTENT:FILE ...
 * consume BOOTSTRAP OUTPUT TOPIC:PARTITION:COUNT ...
 * </pre>
 */
public final class KafkaClient {
    private static final long DEADLINE_MS = 90_000;

    private static final Class<?> HEADERS = find("org.apache.kafka.common.header.Headers");
    private static final Class<?> HEADER = find("org.apache.kafka.common.header.Header");
    private static final Class<?> ADMIN = find("org.apache.kafka.clients.admin.AdminClient");
    private static final Method POLL_DURATION = method(KafkaConsumer.class, "poll", Duration.class);
    private static final Method POLL_LONG = method(KafkaConsumer.class, "poll", long.class);
    private static final Method READ_HEADERS = method(ConsumerRecord.class, "headers");
    private static final Method WRITE_HEADERS = method(ProducerRecord.class, "headers");
    private static final Method ADD = HEADERS == null ? null : method(HEADERS, "add", String.class, byte[].class);
    private static final Method TO_ARRAY = HEADERS == null ? null : method(HEADERS, "toArray");
    private static final Method NAME = HEADER == null ? null : method(HEADER, "key");
    private static final Method VALUE = HEADER == null ? null : method(HEADER, "value");

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "create":
                create(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
                break;
            case "produce":
                for (int i = 3; i < arguments.length; i++) {
                    produce(arguments[1], arguments[2], arguments[i].split(":", 5));
                }
                break;
            case "consume":
                consume(arguments);
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void create(String bootstrap, String topic, int partitions) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        Class<?> newTopic = Class.forName("org.apache.kafka.clients.admin.NewTopic");
        Object wanted = newTopic.getConstructor(String.class, int.class, short.class)
            .newInstance(topic, partitions, (short) 1);
        Object admin = ADMIN.getMethod("create", Properties.class).invoke(null, properties);
        try {
            Object result = ADMIN.getMethod("createTopics", java.util.Collection.class)
                .invoke(admin, Collections.singleton(wanted));
            Object all = result.getClass().getMethod("all").invoke(result);
            ((java.util.concurrent.Future<?>) find("org.apache.kafka.common.KafkaFuture").cast(all)).get();
        } finally {
            ((AutoCloseable) admin).close();
        }
    }

    private static void produce(String bootstrap, String topic, String[] lane) throws Exception {
        int partition = Integer.parseInt(lane[0]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", lane[1]);
        properties.put("acks", lane[2]);
        properties.put("linger.ms", "5");
        properties.put("max.block.ms", "20000");
        if (HEADERS != null) {
            properties.put("enable.idempotence", lane[3].equals("1") ? "true" : "false");
        }
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
             DataInputStream input = open(Paths.get(lane[4]))) {
            while (failure.get() == null) {
                ProducerRecord<byte[], byte[]> record = read(input, topic, partition);
                if (record == null) {
                    break;
                }
                producer.send(record, (metadata, exception) -> {
                    if (exception != null) {
                        failure.compareAndSet(null, exception);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> read(DataInputStream input, String topic, int partition)
        throws Exception {
        try {
            input.readInt();
        } catch (EOFException end) {
            return null;
        }
        input.readLong();
        long timestamp = input.readLong();
        byte[] key = blob(input);
        byte[] value = blob(input);
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(topic, partition, timestamp < 0 ? null : timestamp, key, value);
        int headers = input.readInt();
        for (int i = 0; i < headers; i++) {
            String name = new String(blob(input), StandardCharsets.UTF_8);
            ADD.invoke(WRITE_HEADERS.invoke(record), name, blob(input));
        }
        return record;
    }

    private static void consume(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        Map<TopicPartition, Integer> slots = new HashMap<>();
        Map<TopicPartition, Long> missing = new HashMap<>();
        for (int i = 3; i < arguments.length; i++) {
            String[] part = arguments[i].split(":");
            TopicPartition key = new TopicPartition(part[0], Integer.parseInt(part[1]));
            slots.put(key, i - 3);
            missing.put(key, Long.parseLong(part[2]));
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             DataOutputStream output = create(Paths.get(arguments[2]))) {
            consumer.assign(new ArrayList<>(slots.keySet()));
            for (TopicPartition key : slots.keySet()) {
                consumer.seek(key, 0);
            }
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (!missing.isEmpty()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("records still missing: " + missing);
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    TopicPartition key = new TopicPartition(record.topic(), record.partition());
                    write(output, slots.get(key), record);
                    missing.computeIfPresent(key, (same, left) -> left > 1 ? left - 1 : null);
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            return (ConsumerRecords<byte[], byte[]>) (POLL_DURATION != null
                ? POLL_DURATION.invoke(consumer, Duration.ofMillis(500))
                : POLL_LONG.invoke(consumer, 500L));
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exception) {
                throw (Exception) wrapped.getCause();
            }
            throw wrapped;
        }
    }

    private static void write(DataOutputStream output, int slot, ConsumerRecord<byte[], byte[]> record)
        throws Exception {
        output.writeInt(slot);
        output.writeLong(record.offset());
        output.writeLong(record.timestamp());
        blob(output, record.key());
        blob(output, record.value());
        Object headers = READ_HEADERS == null ? null : TO_ARRAY.invoke(READ_HEADERS.invoke(record));
        int count = headers == null ? 0 : Array.getLength(headers);
        output.writeInt(count);
        for (int i = 0; i < count; i++) {
            Object header = Array.get(headers, i);
            blob(output, ((String) NAME.invoke(header)).getBytes(StandardCharsets.UTF_8));
            blob(output, (byte[]) VALUE.invoke(header));
        }
    }

    private static DataInputStream open(Path path) throws IOException {
        return new DataInputStream(new BufferedInputStream(Files.newInputStream(path), 1 << 16));
    }

    private static DataOutputStream create(Path path) throws IOException {
        return new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(path), 1 << 16));
    }

    private static byte[] blob(DataInputStream input) throws IOException {
        int size = input.readInt();
        if (size < 0) {
            return null;
        }
        byte[] data = new byte[size];
        input.readFully(data);
        return data;
    }

    private static void blob(DataOutputStream output, byte[] data) throws IOException {
        output.writeInt(data == null ? -1 : data.length);
        if (data != null) {
            output.write(data);
        }
    }

    private static Class<?> find(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException older) {
            return null;
        }
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            return owner.getMethod(name, parameters);
        } catch (NoSuchMethodException otherGeneration) {
            return null;
        }
    }
}
