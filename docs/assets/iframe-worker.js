// Lets the search of a site that is opened as files (file://) work: browsers start no workers there, so the search's
// script runs in a hidden frame instead. Named so that mkdocs-material's `offline` plugin does not fetch one of its own.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>search</title>";
      this.frame.addEventListener("load", () => this.start(new URL(url, document.baseURI)), { once: true });
      document.body.appendChild(this.frame);
    }

    start(url) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.started = true;
        this.waiting.forEach((data) => this.postMessage(data));
      };
      inside.document.body.appendChild(script);
    }

    postMessage(data) {
      if (!this.started) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
