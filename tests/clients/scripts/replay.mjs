import { stream } from "./client.mjs"
import { recording } from "./fetches.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"

await play(async ({ url, kind: name, offset }) => {
  const kind = kindOf(name)
  const log = []
  const response = await stream({ url, offset, live: true, fetch: recording(log) })
  return { content: await kind.readAll(response), requests: log.length }
})
