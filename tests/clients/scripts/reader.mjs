import { stream } from "./client.mjs"

const SOON = { initialDelay: 5, maxDelay: 20, multiplier: 1.3 }

/**
 * Reads until the stream is closed. The client asks again by itself when a connection is cut before
 * the answer; when one is cut inside a body it gives up, and the reader opens a new session at the
 * offset of the last batch it was given.
 */
export async function readToTheEnd(options, kind, onBatch = () => {}) {
  const place = { offset: options.offset ?? "-1", contents: [], sessions: 0, closed: false }
  while (!place.closed) {
    place.sessions += 1
    const response = await stream({ ...options, offset: place.offset, backoffOptions: SOON })
    await follow(response, kind, place, onBatch).catch(cutConnection)
    response.cancel()
  }
  const { offset, sessions } = place
  return { content: kind.join(place.contents), offset, sessions }
}

/** `closed` may settle while a batch is still on its way: one that comes after a cut is dropped. */
async function follow(response, kind, place, onBatch) {
  let over = false
  const lastBatch = new Promise((resolve) => {
    kind.subscribe(response, (batch) => {
      if (over) return
      place.contents.push(kind.contentOf(batch))
      place.offset = batch.offset
      place.closed = batch.streamClosed
      onBatch(batch)
      if (batch.streamClosed) resolve()
    })
  })
  const ended = response.closed.then(() => (response.streamClosed ? lastBatch : undefined))
  await Promise.race([lastBatch, ended]).finally(() => (over = true))
}

function cutConnection(error) {
  if (!(error instanceof TypeError)) throw error
}
