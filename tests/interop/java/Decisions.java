import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Apache Kafka's StandardAuthorizer.
 *
 * <p>Input lines, their words separated by tabs: "rules", super users, whether everything without an entry is allowed;
 * then "acl" with the type, name, pattern, principal, host, operation and permission of an entry; then "ask" with
 * principal, host, operation, type and name, where the empty name means any. Numbers are those of the protocol. An
 * answer is a line "1" or "0" for each question.
 */
public final class Decisions {
    private static final class Asker implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Asker(String principal, String host) throws IOException {
            this.principal = SecurityUtils.parseKafkaPrincipal(principal);
            this.address = InetAddress.getByName(host);
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return principal;
        }

        @Override
        public InetAddress clientAddress() {
            return address;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    private static StandardAuthorizer authorizer(String superUsers, String open, Map<Uuid, StandardAcl> acls) {
        StandardAuthorizer made = new StandardAuthorizer();
        Plugin.wrapInstance(made, new Metrics(), "authorizer.class.name", "role", "broker");
        made.configure(Map.of(
            "super.users", superUsers, "allow.everyone.if.no.acl.found", open, "node.id", "1"));
        made.loadSnapshot(acls);
        made.completeInitialLoad();
        return made;
    }

    private static boolean answer(StandardAuthorizer authorizer, String[] words) throws IOException {
        Asker asker = new Asker(words[1], words[2]);
        AclOperation operation = AclOperation.fromCode(Byte.parseByte(words[3]));
        ResourceType type = ResourceType.fromCode(Byte.parseByte(words[4]));
        if (words.length == 5) {
            return authorizer.authorizeByResourceType(asker, operation, type) == AuthorizationResult.ALLOWED;
        }
        ResourcePattern pattern = new ResourcePattern(type, words[5], PatternType.LITERAL);
        List<Action> actions = List.of(new Action(operation, pattern, 1, false, false));
        return authorizer.authorize(asker, actions).get(0) == AuthorizationResult.ALLOWED;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder output = new StringBuilder();
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        String superUsers = "";
        String open = "false";
        StandardAuthorizer authorizer = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            switch (words[0]) {
                case "rules":
                    superUsers = words[1];
                    open = words[2];
                    acls.clear();
                    authorizer = null;
                    break;
                case "acl":
                    acls.put(Uuid.randomUuid(), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(words[1])),
                        words[2],
                        PatternType.fromCode(Byte.parseByte(words[3])),
                        words[4],
                        words[5],
                        AclOperation.fromCode(Byte.parseByte(words[6])),
                        AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    break;
                default:
                    if (authorizer == null) {
                        authorizer = authorizer(superUsers, open, acls);
                    }
                    output.append(answer(authorizer, words) ? "1\n" : "0\n");
            }
        }
        System.out.print(output);
        System.out.flush();
    }
}
