import java.io.OutputStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Random;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes segments by the classes with which brokers of that time wrote them: compiled against 0.10.2, run
 * with the jars of 0.10.2 (magic 0 and 1) and of 1.1 (magic 0, 1 and 2).
 *
 * <pre>
 * OUTPUT MAGIC:CODEC:TIMESTAMP_TYPE:FIRST_OFFSET:COUNT:OFFSET_STEP ...
 * </pre>
 *
 * <p>Sets of records follow each other in the file; records depend on nothing but their offsets. Offset steps
 * above 1 are what a compaction left.
 */
public final class OldRecords {
    private static final long FIRST_TIMESTAMP = 1_400_000_000_000L;
    private static final long APPEND_TIMESTAMP = 1_450_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        try (OutputStream output = Files.newOutputStream(Paths.get(arguments[0]))) {
            for (int i = 1; i < arguments.length; i++) {
                ByteBuffer set = write(arguments[i].split(":"));
                byte[] data = new byte[set.remaining()];
                set.get(data);
                output.write(data);
            }
        }
    }

    private static ByteBuffer write(String[] words) throws Exception {
        byte magic = Byte.parseByte(words[0]);
        CompressionType codec = CompressionType.forName(words[1]);
        TimestampType type = TimestampType.forName(words[2]);
        long first = Long.parseLong(words[3]);
        int count = Integer.parseInt(words[4]);
        int step = Integer.parseInt(words[5]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 20), magic, codec, type, first, APPEND_TIMESTAMP);
        // What it returns differs between the versions.
        Method append = MemoryRecordsBuilder.class.getMethod(
            "appendWithOffset", long.class, long.class, byte[].class, byte[].class);
        for (int i = 0; i < count; i++) {
            long offset = first + (long) i * step;
            Random source = new Random(offset);
            long timestamp = magic == 0 ? -1 : FIRST_TIMESTAMP + offset * 1000 - source.nextInt(1500);
            byte[] key = offset % 5 == 0 ? null : ("key-" + offset % 7).getBytes("UTF-8");
            byte[] value = offset % 11 == 3 ? null : new byte[source.nextInt(60)];
            if (value != null) {
                for (int at = 0; at < value.length; at++) {
                    value[at] = (byte) ('a' + source.nextInt(6));
                }
            }
            append.invoke(builder, offset, timestamp, key, value);
        }
        return builder.build().buffer();
    }
}
