import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["official.test.mjs"],
    // Forks come with their own issue; subscriptions are off unless asked for.
    testNamePattern: /^(?!Fork - )/,
    // The largest tests spend seconds in their own assertions when the machine is busy.
    testTimeout: 30_000,
  },
});
