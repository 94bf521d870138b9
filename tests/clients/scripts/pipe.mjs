import { DurableStream } from "./client.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"

await play(async ({ url, kind: name, messages }) => {
  const kind = kindOf(name)
  const handle = await DurableStream.create({ url, contentType: kind.contentType })
  const pieces = messages.map(kind.encode)
  const half = pieces.length / 2
  await handle.appendStream(ReadableStream.from(pieces.slice(0, half)))
  await ReadableStream.from(pieces.slice(half)).pipeTo(handle.writable())
  const content = await kind.readAll(await handle.stream({ live: true }))
  return { content, closed: (await handle.head()).streamClosed }
})
