// The official package's own view of snapshots and tails, compared with what it should be.
// Each line of standard input: {snapshot: text, tail: [text], expected: [[type, key, text]]}.
import { createInterface } from "node:readline"
import { createRequire } from "node:module"
import { isDeepStrictEqual } from "node:util"
import { pathToFileURL } from "node:url"

const require = createRequire(`${process.cwd()}/package.json`)
const entry = require.resolve("@durable-streams/state").replace("index.cjs", "index.js")
const { MaterializedState, isChangeEvent, isControlEvent } = await import(pathToFileURL(entry))

function materialised(snapshot, tail) {
  const state = new MaterializedState()
  for (const event of [...JSON.parse(snapshot), ...tail.map((text) => JSON.parse(text))]) {
    if (isChangeEvent(event)) state.apply(event)
    else if (isControlEvent(event) && event.headers.control === "reset") state.clear()
  }
  return state
}

function differences(state, expected) {
  const size = state.types.reduce((sum, type) => sum + state.getType(type).size, 0)
  const wrong = expected.filter(
    ([type, key, text]) =>
      !state.getType(type).has(key) || !isDeepStrictEqual(state.get(type, key), JSON.parse(text)),
  )
  return size === expected.length ? wrong : [`${size} entries`, ...wrong]
}

for await (const line of createInterface({ input: process.stdin })) {
  const { snapshot, tail, expected } = JSON.parse(line)
  console.log(JSON.stringify(differences(materialised(snapshot, tail), expected)))
}
