// Search from disk. Browsers start no worker from a file: address, so the script of the worker runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.started = new Promise((resolve) => this.frame.addEventListener("load", () => this.#start(address, resolve)));
      document.body.append(this.frame);
    }

    #start(address, resolve) {
      // What the worker posts goes to this page; in a frame it would go to the frame itself.
      this.frame.contentWindow.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href);
      script.addEventListener("load", resolve);
      this.frame.contentDocument.body.append(script);
    }

    async postMessage(data) {
      await this.started;
      const inner = this.frame.contentWindow;
      const event = new inner.MessageEvent("message", { data });
      inner.dispatchEvent(event);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
