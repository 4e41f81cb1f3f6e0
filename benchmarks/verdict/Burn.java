import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * A slower broker: allows everything, but each produce request takes `burn.us` microseconds of CPU time, and waits for
 * `wait.us` microseconds without using any.
 */
public class Burn implements Authorizer {
  private long burnNanos;
  private long waitNanos;

  /** Lets `-javaagent` add the jar to the class path; it is loaded by every JVM, also without Kafka. */
  public static class Agent {
    public static void premain(String arguments) {}
  }

  @Override
  public void configure(Map<String, ?> configs) {
    burnNanos = nanos(configs.get("burn.us"));
    waitNanos = nanos(configs.get("wait.us"));
  }

  private static long nanos(Object micros) {
    return micros == null ? 0 : 1000 * Long.parseLong(micros.toString());
  }

  @Override
  public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
    Map<Endpoint, CompletableFuture<Void>> started = new java.util.HashMap<>();
    info.endpoints().forEach(endpoint -> started.put(endpoint, CompletableFuture.completedFuture(null)));
    return started;
  }

  @Override
  public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
    List<AuthorizationResult> results = new ArrayList<>();
    for (Action action : actions) {
      results.add(AuthorizationResult.ALLOWED);
    }
    if (!actions.isEmpty() && actions.get(0).operation() == AclOperation.WRITE) {
      if (waitNanos > 0) {
        LockSupport.parkNanos(waitNanos);
      }
      long until = System.nanoTime() + burnNanos;
      while (System.nanoTime() < until) {
        Thread.onSpinWait();
      }
    }
    return results;
  }

  @Override
  public List<? extends CompletionStage<AclCreateResult>> createAcls(
      AuthorizableRequestContext context, List<AclBinding> bindings) {
    return List.of();
  }

  @Override
  public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
      AuthorizableRequestContext context, List<AclBindingFilter> filters) {
    return List.of();
  }

  @Override
  public Iterable<AclBinding> acls(AclBindingFilter filter) {
    return List.of();
  }

  @Override
  public void close() {}
}
