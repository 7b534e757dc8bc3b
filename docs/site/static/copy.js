/* A copy button on every block of code or commands; blocks of text are output. Options such as --editor stay whole. */
(() => {
  const whole = (node) => {
    const parts = node.data.split(/((?<=^|\s)--?[a-z][\w-]*)/);
    if (parts.length === 1) return;
    node.replaceWith(
      ...parts.map((part, at) => {
        if (at % 2 === 0) return part;
        const option = document.createElement("span");
        option.className = "option";
        option.textContent = part;
        return option;
      }),
    );
  };
  for (const code of document.querySelectorAll(".highlight-sh pre, code.literal")) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    texts.forEach(whole);
  }

  const ICON =
    '<svg viewBox="0 0 24 24" width="16" height="16" fill="none" stroke="currentColor" stroke-width="2" ' +
    'aria-hidden="true"><rect x="9" y="9" width="12" height="12" rx="2"/><path d="M5 15H3V3h12v2"/></svg>';

  const copied = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      return navigator.clipboard.writeText(text);
    }
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser refused to copy");
  };

  for (const block of document.querySelectorAll("div[class*=highlight-]:not(.highlight-text) > div.highlight")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.innerHTML = ICON;
    const label = (text) => {
      button.setAttribute("aria-label", text);
      button.title = text;
    };
    label("Copy");
    button.addEventListener("click", async () => {
      try {
        await copied(block.querySelector("pre").textContent.replace(/\n$/, ""));
        button.classList.add("done");
        label("Copied");
      } catch {
        label("Copying failed");
      }
      setTimeout(() => {
        button.classList.remove("done");
        label("Copy");
      }, 1500);
    });
    block.append(button);
  }
})();
