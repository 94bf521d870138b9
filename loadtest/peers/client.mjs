// Appends through the official client: client.mjs STREAM_URL BYTES AT_ONCE SECS
// So many at once, then the next so many; the client joins what waits into batches.
// Ends with whoever started it: the client itself would try again for ever.
// Prints a line when it begins to count, and at the end what was counted.
import { DurableStream } from "@durable-streams/client"

const [url, bytes, atOnce, secs] = process.argv.slice(2)
const WARM_UP_MS = 1000
process.stdin.resume().on("end", () => process.exit(1))
const message = "x".repeat(Number(bytes))
const handle = await DurableStream.create({ url, contentType: "text/plain" })

async function appendFor(ms) {
  const took = []
  const began = performance.now()
  while (performance.now() - began < ms) {
    await Promise.all(Array.from({ length: Number(atOnce) }, () => appendOne(took)))
  }
  return { took, secs: (performance.now() - began) / 1000 }
}

async function appendOne(took) {
  const began = performance.now()
  await handle.append(message)
  took.push(performance.now() - began)
}

const warm = await appendFor(WARM_UP_MS)
console.log("counting")
const { took, secs: elapsed } = await appendFor(Number(secs) * 1000)
took.sort((one, other) => one - other)
const at = (part) => took[Math.round((took.length - 1) * part)]
const appended = warm.took.length + took.length
console.log(JSON.stringify({ appended, count: took.length, secs: elapsed, p50: at(0.5), p99: at(0.99) }))
process.exit(0)
