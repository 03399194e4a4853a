import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Apache Kafka's command-line tools one after another in a single JVM.
 *
 * <p>A request is a line of base64 words: standard input, class name, arguments. The answer is a line: exit code,
 * standard output, standard error, the last two in base64. The tools leave through Kafka's Exit class, which
 * here throws instead; their shutdown hooks run after each.
 */
public final class ToolDriver {
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited() {
            super("exit", null, false, false);
        }
    }

    /** Standard output of whichever tool runs: Scala keeps the first System.out it sees for ever. */
    private static final class Switch extends OutputStream {
        private OutputStream target;

        Switch(OutputStream target) {
            this.target = target;
        }

        @Override
        public synchronized void write(int value) throws IOException {
            target.write(value);
        }

        @Override
        public synchronized void write(byte[] data, int offset, int length) throws IOException {
            target.write(data, offset, length);
        }

        synchronized void to(OutputStream next) {
            target = next;
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer exitCode;

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        InputStream requests = System.in;
        PrintStream log = System.err;
        Switch output = new Switch(log);
        Switch error = new Switch(log);
        System.setOut(new PrintStream(output, true, "UTF-8"));
        System.setErr(new PrintStream(error, true, "UTF-8"));
        Exit.setExitProcedure((code, message) -> leave(code, message));
        Exit.setHaltProcedure((code, message) -> leave(code, message));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.US_ASCII));
        answers.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> words = new ArrayList<>();
            for (String word : line.split(" ", -1)) {
                words.add(new String(Base64.getDecoder().decode(word), StandardCharsets.ISO_8859_1));
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            output.to(out);
            error.to(err);
            System.setIn(new ByteArrayInputStream(words.get(0).getBytes(StandardCharsets.ISO_8859_1)));
            int code = run(words);
            HOOKS.forEach(Runnable::run);
            HOOKS.clear();
            System.out.flush();
            System.err.flush();
            output.to(log);
            error.to(log);
            Base64.Encoder encoder = Base64.getEncoder();
            answers.println(code + " " + encoder.encodeToString(out.toByteArray())
                + " " + encoder.encodeToString(err.toByteArray()));
        }
    }

    private static void leave(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
            if (message != null) {
                System.err.println(message);
            }
        }
        throw new Exited();
    }

    private static int run(List<String> words) throws Exception {
        exitCode = null;
        String[] arguments = new String[words.size() - 2];
        for (int i = 0; i < arguments.length; i++) {
            byte[] raw = words.get(i + 2).getBytes(StandardCharsets.ISO_8859_1);
            arguments[i] = new String(raw, StandardCharsets.UTF_8);
        }
        try {
            Class.forName(words.get(1)).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (!(wrapped.getCause() instanceof Exited)) {
                wrapped.getCause().printStackTrace();
                return 1;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }
}
