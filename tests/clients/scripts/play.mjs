/** Plays a scene, at the same time with each thing that Python gave, and prints the verdicts. */
export async function play(scene) {
  const verdicts = await Promise.all(JSON.parse(process.argv[2]).map(scene))
  process.stdout.write(`${JSON.stringify(verdicts)}\n`)
}

/** The status the client was refused with, or null when it was not. */
export async function refusal(promise) {
  try {
    await promise
    return null
  } catch (error) {
    if (error.status === undefined) throw error
    return error.status
  }
}
