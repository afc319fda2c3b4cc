/* Search from disk. Browsers start no worker from a file:// address, so the search script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write("<html><body></body></html>")
      inside.document.close()
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...addresses) =>
        addresses.reduce((earlier, next) => earlier.then(() => this.load(next)), Promise.resolve())
      this.load(address).then(() => {
        const messages = this.waiting
        this.waiting = null
        messages.forEach(data => this.postMessage(data))
      })
    }

    load(address) {
      return new Promise(done => {
        const script = this.frame.contentDocument.createElement("script")
        script.src = new URL(address, document.baseURI).href
        script.onload = script.onerror = done
        this.frame.contentDocument.body.appendChild(script)
      })
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
