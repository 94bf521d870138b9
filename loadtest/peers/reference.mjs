// The Node reference server: reference.mjs PORT [DATA_DIR]; without a directory it keeps all in memory.
import { createRequire } from "node:module"
import { DurableStreamTestServer } from "@durable-streams/server"

const [port, dataDir] = process.argv.slice(2)
const { version } = createRequire(import.meta.url)("@durable-streams/server/package.json")
const server = new DurableStreamTestServer({ port: Number(port), ...(dataDir && { dataDir }) })

console.log(`engine @durable-streams/server ${version} on Node.js ${process.versions.node}`)
console.log(`listening on ${await server.start()}`)
