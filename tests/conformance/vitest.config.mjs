import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["official.test.mjs"],
    // The largest tests spend seconds in their own assertions when the machine is busy.
    testTimeout: 30_000,
  },
});
