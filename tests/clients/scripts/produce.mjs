import { DurableStream, IdempotentProducer } from "./client.mjs"
import { overtaken, persistent, recording, repeating } from "./fetches.mjs"
import { kindOf } from "./kinds.mjs"
import { play } from "./play.mjs"

const FETCHES = { overtaken, persistent, recording, repeating }

await play(async ({ url, kind: name, messages, last, fetch, options }) => {
  const kind = kindOf(name)
  const log = []
  const errors = []
  const handle = new DurableStream({ url, contentType: kind.contentType })
  const producer = new IdempotentProducer(handle, "the-producer", {
    ...options,
    fetch: FETCHES[fetch](log),
    onError: (error) => errors.push(String(error)),
  })
  for (const message of messages) producer.append(kind.encode(message))
  await producer.flush()
  const batches = producer.nextSeq
  const { finalOffset } = await producer.close(kind.encode(last))
  const answered = (status) => log.filter((request) => request.status === status).length
  return {
    batches,
    errors,
    finalOffset,
    accepted: answered(200),
    duplicates: answered(204),
    outOfOrder: answered(409),
    retries: log.filter(({ retry }) => retry).length,
  }
})
