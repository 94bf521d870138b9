/** Ways to fetch that the scenes hand to the client. */

/** Remembers what was asked and how it was answered. */
export function recording(log) {
  return async (url, init) => {
    const response = await fetch(url, init)
    const live = new URL(url).searchParams.get("live")
    log.push({ method: init?.method ?? "GET", live, status: response.status })
    return response
  }
}

/** Every request reaches the server twice, as after an answer that got lost. */
export function repeating(log) {
  const once = recording(log)
  return async (url, init) => {
    await once(url, init)
    return once(url, init)
  }
}

/** The first request is overtaken: it leaves only when another one has been answered. */
export function overtaken(log) {
  const once = recording(log)
  let isFirst = true
  let overtake
  const overtaking = new Promise((resolve) => (overtake = resolve))
  return async (url, init) => {
    if (isFirst) {
      isFirst = false
      await overtaking
    }
    const response = await once(url, init)
    overtake()
    return response
  }
}

/** The client's producer leaves retries to its fetch. This one tries until there is an answer. */
export function persistent(log) {
  const once = recording(log)
  return async (url, init) => {
    for (;;) {
      const response = await once(url, init).catch(networkError)
      if (response && response.status < 500) return response
      log.push({ retry: true })
    }
  }
}

function networkError(error) {
  if (!(error instanceof TypeError)) throw error
  return null
}
