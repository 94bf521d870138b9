// The official suite, pointed at the server in CONFORMANCE_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

const baseUrl = process.env.CONFORMANCE_URL;
if (!baseUrl) throw new Error("set CONFORMANCE_URL to the server to test");

runConformanceTests({ baseUrl, longPollTimeoutMs: 500 });
