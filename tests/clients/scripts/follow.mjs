import { DurableStream } from "./client.mjs"
import { recording } from "./fetches.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"
import { readToTheEnd } from "./reader.mjs"

/** Whenever the reader has caught up, there is one more message; after the last, an end. */
await play(async ({ url, kind: name, live, history, messages }) => {
  const kind = kindOf(name)
  const handle = await DurableStream.create({ url, contentType: kind.contentType })
  await Promise.all(history.map((message) => handle.append(kind.encode(message))))
  const log = []
  const left = messages.map(kind.encode)
  const writes = []
  const read = await readToTheEnd({ url, live, fetch: recording(log) }, kind, (batch) => {
    if (!batch.upToDate || batch.streamClosed) return
    writes.push(left.length > 0 ? handle.append(left.shift()) : handle.close())
  })
  await Promise.all(writes)
  return { ...read, asked: [...new Set(log.map((request) => request.live))] }
})
