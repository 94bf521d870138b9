import { DurableStream } from "./client.mjs"
import { recording } from "./fetches.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"

await play(async ({ url, kind: name, messages, batching }) => {
  const kind = kindOf(name)
  const log = []
  const { contentType } = kind
  const handle = await DurableStream.create({ url, contentType, batching, fetch: recording(log) })
  const [first, ...others] = messages.map(kind.encode)
  await handle.append(first)
  if (batching) await Promise.all(others.map((message) => handle.append(message)))
  else for (const message of others) await handle.append(message)
  const posts = log.filter(({ method }) => method === "POST").length
  const content = await kind.readAll(await handle.stream({ live: true }))
  return { posts, content }
})
