import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans logs at rest with Apache Kafka's own Cleaner, at a time that is given.
 *
 * <p>A request is a line: the replica's directory, the time in ms, the first dirty and the first uncleanable offset
 * (-1: the active segment), the bytes of the offset map, then topic configurations as name=value. The answer is a
 * line: the end offset of the round and the CPU time of the cleaning in nanoseconds, or "error" and the reason. Files
 * marked as deleted stay.
 */
public final class CleanerDriver {
    /** A clock that stands still. */
    private static final class FixedTime implements Time {
        private final long now;

        FixedTime(long now) {
            this.now = now;
        }

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return System.nanoTime();
        }

        @Override
        public void sleep(long ms) {
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    }

    /** Runs nothing later: neither retention nor the deletion of files. */
    private static final class NoScheduler implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return (ScheduledFuture<?>) Proxy.newProxyInstance(
                ScheduledFuture.class.getClassLoader(), new Class<?>[] {ScheduledFuture.class},
                (proxy, method, arguments) -> method.getName().equals("cancel"));
        }

        @Override
        public void resizeThreadPool(int size) {
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String answer;
            try {
                answer = clean(line.split(" "));
            } catch (Exception | AssertionError failure) {
                answer = "error " + failure.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String clean(String[] words) throws Exception {
        File directory = new File(words[0]);
        Time time = new FixedTime(Long.parseLong(words[1]));
        long firstDirty = Long.parseLong(words[2]);
        long firstUncleanable = Long.parseLong(words[3]);
        Properties properties = new Properties();
        for (int i = 5; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            properties.setProperty(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        properties.setProperty("cleanup.policy", "compact");
        UnifiedLog log = UnifiedLog.create(
            directory, new LogConfig(properties), 0L, 0L, new NoScheduler(), new BrokerTopicStats(), time, 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.empty());
        try {
            if (firstUncleanable < 0) {
                firstUncleanable = log.activeSegment().baseOffset();
            }
            Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(Integer.parseInt(words[4])), 262_144, 1 << 25, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", time), time, partition -> { });
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            Map.Entry<Long, CleanerStats> round = cleaner.doClean(
                new LogToClean(log, firstDirty, firstUncleanable, false), time.milliseconds());
            long used = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before;
            return round.getKey() + " " + used;
        } finally {
            log.close();
        }
    }
}
