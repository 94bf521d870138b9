import { DurableStream } from "./client.mjs"
import { recording } from "./fetches.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"
import { readToTheEnd } from "./reader.mjs"

/** One message after the other, until the client has opened so many SSE connections by itself. */
await play(async ({ url, connections }) => {
  const kind = kindOf("json")
  const handle = await DurableStream.create({ url, contentType: kind.contentType })
  const log = []
  const reading = readToTheEnd({ url, live: "sse", fetch: recording(log) }, kind)
  let written = 0
  while (log.filter(({ live }) => live === "sse").length < connections) {
    await handle.append(JSON.stringify(written++))
  }
  await handle.close()
  return { written, ...(await reading) }
})
