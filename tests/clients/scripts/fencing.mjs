import { DurableStream, IdempotentProducer } from "./client.mjs"
import { play } from "./play.mjs"

await play(async ({ url }) => {
  const handle = await DurableStream.create({ url, contentType: "application/json" })
  const errors = []
  const onError = ({ name, currentEpoch }) => errors.push({ name, currentEpoch })
  const producer = (options) => new IdempotentProducer(handle, "p", { onError, ...options })
  const produce = async (by, message) => {
    by.append(JSON.stringify(message))
    await by.flush()
  }
  const first = producer({})
  await produce(first, "first")
  const second = producer({ epoch: 1 })
  await produce(second, "second")
  await produce(first, "from a zombie")
  const third = producer({ autoClaim: true })
  await produce(third, "third")
  await third.restart()
  await produce(third, "third, restarted")
  await third.detach()
  const items = await (await handle.stream({ live: true })).json()
  const { streamClosed } = await handle.head()
  return { items, errors, streamClosed, epochs: [first, second, third].map(({ epoch }) => epoch) }
})
