import { DurableStream } from "./client.mjs"
import { kindOf } from "./kinds.mjs"
import { play, refusal } from "./play.mjs"
import { readToTheEnd } from "./reader.mjs"

await play(async ({ url, live }) => {
  const kind = kindOf("json")
  const handle = await DurableStream.create({ url, contentType: kind.contentType })
  await handle.append("1")
  let closing = null
  const waiting = await readToTheEnd({ url, live }, kind, ({ upToDate }) => {
    if (upToDate) closing ??= handle.close({ body: "2" })
  })
  const { finalOffset } = await closing
  const late = await readToTheEnd({ url, live }, kind)
  const atTheEnd = await readToTheEnd({ url, live, offset: finalOffset }, kind)
  const again = await handle.close()
  const append = await refusal(handle.append("3"))
  const body = await refusal(handle.close({ body: "3" }))
  const head = await handle.head()
  return { waiting, late, atTheEnd, finalOffset, again, append, body, head }
})
