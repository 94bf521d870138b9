import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"
import { readToTheEnd } from "./reader.mjs"

await play(({ url, kind, live }) => {
  const sseResilience = { minConnectionDuration: 0 }
  return readToTheEnd({ url, live, sseResilience }, kindOf(kind))
})
