import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of a topic's values with {@code exactly_once_v2}, until it is killed.
 *
 * <p>Arguments: bootstrap, directory of its own, input topic, output topic, replication factor of what it makes. The
 * counts are in memory: one that starts has them from their changelog. Lines out: {@code state NAME} when that changes,
 * {@code failed REASON} when a thread ends with an error and is replaced.
 */
public final class WordCount {
    private static PrintStream lines;

    public static void main(String[] arguments) {
        lines = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(text -> Arrays.asList(text.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties(arguments));
        streams.setStateListener((state, before) -> print("state " + state));
        streams.setUncaughtExceptionHandler(error -> {
            print("failed " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }

    private static Properties properties(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", "word-count");
        properties.put("state.dir", arguments[1]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("replication.factor", arguments[4]);
        properties.put("commit.interval.ms", "100");
        properties.put("num.stream.threads", "1");
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("consumer.session.timeout.ms", "3000");
        properties.put("consumer.heartbeat.interval.ms", "500");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("producer.transaction.timeout.ms", "10000");
        // What it makes in the brokers is small and rolls often, so that there is something to compact.
        properties.put("topic.segment.ms", "1000");
        properties.put("topic.min.cleanable.dirty.ratio", "0.01");
        return properties;
    }

    private static synchronized void print(String line) {
        lines.println(line);
    }

    private WordCount() {}
}
