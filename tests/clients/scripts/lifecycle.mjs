import { DurableStream } from "./client.mjs"
import { play, refusal } from "./play.mjs"

await play(async ({ url }) => {
  const before = await DurableStream.head({ url })
  const handle = await DurableStream.create({ url, contentType: "text/plain", body: "first" })
  const again = await refusal(DurableStream.create({ url, contentType: "text/plain" }))
  const other = await refusal(DurableStream.create({ url, contentType: "application/json" }))
  const connected = await DurableStream.connect({ url })
  await handle.append(", second", { seq: "b" })
  const lateSeq = await refusal(handle.append("never", { seq: "a" }))
  const head = await connected.head()
  const text = await (await handle.stream({ live: true })).text()
  await handle.delete()
  const after = await DurableStream.head({ url })
  const gone = await refusal(handle.append("never"))
  const contentType = connected.contentType
  return { before, again, other, contentType, lateSeq, head, text, after, gone }
})
