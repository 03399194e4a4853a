import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Tells how Java writes distinguished names, and what Kafka makes of them by rules.
 *
 * <p>A request is a line of base64 words: {@code name <DER>} or {@code rules <rules> <name>}. The answer is a line:
 * the text in base64, or {@code none} if no rule matches, or {@code invalid} if something is refused.
 */
public final class NameOracle {
    private NameOracle() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] words) {
        try {
            String answer = words[0].equals("name")
                    ? new X500Principal(Base64.getDecoder().decode(words[1])).getName()
                    : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
            return "is " + Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8));
        } catch (IOException unmatched) {
            return "none";
        } catch (RuntimeException refused) {
            return "invalid";
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
