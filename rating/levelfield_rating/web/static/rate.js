// The rating page. The form works without this; with it every answer is saved at once, is kept in
// the browser while the network is away, and pages change without loading.

const form = document.getElementById("item");
const words = form ? JSON.parse(form.dataset.words) : {};
const say = (name, values = {}) =>
  words[name].replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function attributes(target, values) {
  for (const [name, value] of Object.entries(values)) target.setAttribute(name, value);
  return target;
}

// What the browser keeps: one entry an event, so that two windows never overwrite each other.

class Shelf {
  constructor(name) {
    this.prefix = `levelfield.${name}.`;
    this.memory = new Map();
    try {
      this.storage = window.localStorage;
      this.storage.getItem(this.prefix);
    } catch {
      this.storage = null;
    }
  }

  get(name) {
    try {
      return this.storage.getItem(this.prefix + name) ?? this.memory.get(name) ?? null;
    } catch {
      return this.memory.get(name) ?? null;
    }
  }

  set(name, value) {
    try {
      this.storage.setItem(this.prefix + name, value);
      this.memory.delete(name);
    } catch {
      this.memory.set(name, value); // full, or switched off: kept as long as the page is
    }
  }

  delete(name) {
    this.memory.delete(name);
    try {
      this.storage.removeItem(this.prefix + name);
    } catch {
      // nothing was kept
    }
  }

  names() {
    const kept = new Set(this.memory.keys());
    try {
      for (let i = 0; i < this.storage.length; i++) {
        const key = this.storage.key(i);
        if (key.startsWith(this.prefix)) kept.add(key.slice(this.prefix.length));
      }
    } catch {
      // only what is in memory
    }
    return [...kept];
  }

  events() {
    const found = [];
    for (const name of this.names()) {
      if (!name.startsWith("event.")) continue;
      try {
        found.push(JSON.parse(this.get(name)));
      } catch {
        this.delete(name);
      }
    }
    return found.filter(Boolean).sort((a, b) => a.clock - b.clock);
  }

  clear() {
    for (const name of this.names()) this.delete(name);
  }
}

function uuid() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only there on https and localhost
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

// Questions. Each has value (null: no answer), show(value), focus() and calls changed(value).

const LOW = 1;
const HIGH = 100;
const STEP = 11; // ten words from one end to the other

class Slider {
  constructor(fieldset, changed) {
    this.fieldset = fieldset;
    this.changed = changed;
    this.steps = JSON.parse(fieldset.dataset.steps);
    this.value = null;
    const { given } = fieldset.dataset; // the buttons know ten places only
    this.thumb = element("span", { className: "thumb", hidden: true });
    this.reach = element("span", { className: "reach" }, this.thumb);
    this.field = element("input", { type: "hidden", name: `c.${fieldset.dataset.criterion}` });
    this.bar = attributes(
      element("div", { className: "slider", tabIndex: 0 }, element("span", { className: "rail" }), this.reach),
      {
        role: "slider",
        "aria-labelledby": fieldset.querySelector("legend").id,
        // places in words, not the value: screen readers get no more than eyes do
        "aria-valuemin": 0,
        "aria-valuemax": this.steps.length,
      },
    );
    fieldset.querySelector(".steps").replaceWith(this.bar);
    this.bar.after(this.field);
    this.show(given ? Number(given) : null);
    this.listen();
  }

  show(value) {
    this.value = value;
    const unset = value === null;
    const step = unset ? -1 : Math.round((value - LOW) / STEP);
    this.field.value = unset ? "" : value;
    this.thumb.hidden = unset;
    if (!unset) this.thumb.style.left = `${((value - LOW) / (HIGH - LOW)) * 100}%`;
    attributes(this.bar, {
      "aria-valuenow": step + 1,
      "aria-valuetext": unset ? say("unset") : this.steps[step],
    });
  }

  set(value, finished) {
    this.show(Math.min(HIGH, Math.max(LOW, Math.round(value))));
    this.changed(this.value, finished);
  }

  at(event) {
    const box = this.reach.getBoundingClientRect();
    return LOW + ((event.clientX - box.left) / box.width) * (HIGH - LOW);
  }

  listen() {
    let before = null;
    let held = false;
    this.bar.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = true;
      before = this.value;
      this.bar.setPointerCapture(event.pointerId);
      if (event.pointerType !== "touch") this.show_at(event); // a finger may only want to scroll
    });
    this.bar.addEventListener("pointermove", (event) => {
      if (held) this.show_at(event);
    });
    this.bar.addEventListener("pointerup", (event) => {
      if (!held) return;
      held = false;
      this.set(this.at(event), true);
    });
    this.bar.addEventListener("pointercancel", () => {
      if (held) this.show(before);
      held = false;
    });
    this.bar.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const middle = (LOW + HIGH) / 2;
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
      let value;
      if (event.key === "Home") value = LOW;
      else if (event.key === "End") value = HIGH;
      else if (!(event.key in by)) return;
      else if (this.value !== null) value = this.value + by[event.key];
      else value = by[event.key] > 0 ? Math.floor(middle) + by[event.key] : Math.ceil(middle) + by[event.key];
      event.preventDefault();
      this.set(value, false);
    });
    this.bar.addEventListener("blur", () => {
      if (this.value !== null) this.changed(this.value, true);
    });
  }

  show_at(event) {
    this.show(Math.min(HIGH, Math.max(LOW, Math.round(this.at(event)))));
  }

  focus() {
    this.bar.focus();
  }
}

class Choice {
  constructor(fieldset, changed, factor = 1, offset = 0) {
    this.fieldset = fieldset;
    this.inputs = [...fieldset.querySelectorAll("input[type=radio]")];
    this.factor = factor;
    this.offset = offset;
    const checked = this.inputs.find((input) => input.checked);
    this.value = checked ? this.meant(checked) : null;
    this.changed = changed;
    for (const input of this.inputs) {
      input.addEventListener("change", () => {
        if (input.checked) this.set(this.meant(input));
      });
    }
  }

  meant(input) {
    return this.offset + this.factor * Number(input.value);
  }

  show(value) {
    this.value = value;
    for (const input of this.inputs) {
      input.checked = value !== null && Math.round((value - this.offset) / this.factor) === Number(input.value);
    }
  }

  set(value) {
    this.show(value);
    this.changed(value, true);
  }

  focus() {
    (this.inputs.find((input) => input.checked) ?? this.inputs[0]).focus();
  }
}

class Order {
  constructor(fieldset, changed) {
    this.fieldset = fieldset;
    this.changed = changed;
    this.selects = [...fieldset.querySelectorAll("select")];
    const given = this.selects.map((select) => Number(select.value));
    this.list = element("ol", { className: "order" });
    this.status = attributes(element("p", { className: "note" }), { role: "status" });
    this.confirm = element("button", { type: "button", className: "quiet confirm", textContent: say("rank_confirm") });
    this.confirm.addEventListener("click", () => this.settle());
    const box = fieldset.querySelector("[data-answer]");
    this.fields = element("span", { hidden: true });
    box.replaceChildren(this.list, this.status, this.confirm, this.fields);
    const parts = [...document.querySelectorAll("[data-texts] .part blockquote")];
    this.texts(parts.map((part) => part.textContent));
    this.show(given.length && given.every(Boolean) ? given : null);
  }

  texts(all) {
    this.names = all;
    this.groups = all.map((_, position) => [position]);
  }

  // 1 + the number of texts before
  ranks() {
    const ranks = [];
    let before = 0;
    for (const group of this.groups) {
      for (const position of group) ranks[position] = before + 1;
      before += group.length;
    }
    return ranks;
  }

  show(ranks) {
    this.value = ranks;
    const groups = new Map();
    (ranks ?? this.names.map((_, position) => position)).forEach((rank, position) => {
      groups.set(rank, [...(groups.get(rank) ?? []), position]);
    });
    this.groups = [...groups.entries()].sort((a, b) => a[0] - b[0]).map((entry) => entry[1]);
    this.status.textContent = ranks ? "" : say("rank_unset");
    this.draw();
  }

  draw() {
    const ranks = this.ranks();
    this.fieldset.classList.toggle("unordered", this.value === null);
    this.list.replaceChildren();
    for (const group of this.groups) {
      for (const position of [...group].sort((a, b) => a - b)) {
        const name = say("text_n", { n: position + 1 });
        const moves = element("span", { className: "moves" });
        for (const [way, sign] of [["up", "↑"], ["down", "↓"]]) {
          const button = element("button", { type: "button", textContent: sign });
          attributes(button, { "aria-label": say(way, { text: name }), "data-move": `${way}${position}` });
          button.addEventListener("click", () => this.move(position, way));
          button.addEventListener("keydown", (event) => {
            const wanted = { ArrowUp: "up", ArrowDown: "down" }[event.key];
            if (!wanted) return;
            event.preventDefault();
            this.move(position, wanted);
          });
          moves.append(button);
        }
        this.list.append(
          element(
            "li",
            { className: group.length > 1 && position !== Math.min(...group) ? "tied" : "" },
            element("span", { className: "place", textContent: `${ranks[position]}.` }),
            element("span", { className: "what" }, `${name} `, element("bdi", { textContent: this.names[position].trim() })),
            moves,
          ),
        );
      }
    }
    this.fields.replaceChildren(
      ...ranks.map((rank, position) =>
        element("input", {
          type: "hidden",
          name: `c.${this.fieldset.dataset.criterion}.${position}`,
          value: this.value === null ? "" : rank,
        }),
      ),
    );
  }

  // One step is into a shared place with the neighbour, the next one past it.
  move(position, way) {
    const at = this.groups.findIndex((group) => group.includes(position));
    const group = this.groups[at];
    const rest = group.filter((one) => one !== position);
    const other = way === "up" ? at - 1 : at + 1;
    if (rest.length) {
      this.groups.splice(at, 1, ...(way === "up" ? [[position], rest] : [rest, [position]]));
    } else if (other >= 0 && other < this.groups.length) {
      this.groups[other].push(position);
      this.groups.splice(at, 1);
    }
    this.settle(position);
    this.list.querySelector(`[data-move="${way}${position}"]`).focus();
  }

  settle(position = null) {
    const hadFocus = document.activeElement === this.confirm;
    this.value = this.ranks();
    this.draw();
    if (hadFocus) this.focus();
    const name = position === null ? "" : say("text_n", { n: position + 1 });
    const group = this.groups.find((one) => one.includes(position));
    this.status.textContent =
      position === null ? "" : say(group.length > 1 ? "rank_tied" : "rank", { text: name, place: this.value[position] });
    this.changed(this.value, true);
  }

  focus() {
    this.list.querySelector("button")?.focus();
  }
}

const SETTINGS = "levelfield.settings.";

function setting(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(SETTINGS + name, value ? "yes" : "no");
    return localStorage.getItem(SETTINGS + name);
  } catch {
    return null;
  }
}

function questions(changed) {
  return [...form.querySelectorAll("[data-criterion]")].map((fieldset) => {
    const told = (value, finished) => changed(question, value, finished);
    let question;
    if (fieldset.dataset.scale === "ranking") question = new Order(fieldset, told);
    else if (fieldset.dataset.scale !== "slider") question = new Choice(fieldset, told);
    else if (setting("plain") === "yes") question = new Choice(fieldset, told, STEP, LOW);
    else question = new Slider(fieldset, told);
    question.id = fieldset.dataset.criterion;
    question.title = fieldset.dataset.title;
    return question;
  });
}

function open_ones(all) {
  return all.filter((question) => question.value === null);
}

function show_open(all) {
  const box = document.getElementById("open");
  const target = document.getElementById("open-words") ?? box;
  const missing = open_ones(all);
  for (const question of all) question.fieldset.classList.toggle("is-open", missing.includes(question));
  box.hidden = missing.length === 0;
  target.textContent = missing.length
    ? say("open", { names: missing.map((question) => question.title).join(", ") })
    : "";
  if (missing.length) go_to(missing[0]);
  return missing.length > 0;
}

function go_to(question) {
  question.focus();
  question.fieldset.scrollIntoView({ block: "nearest" }); // what is asked too, not only the answer
}

function keys(all, go_on) {
  const pairwise = all.some((question) => question.fieldset.dataset.scale === "pairwise");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target;
    if (target.closest("textarea, select, a, summary, [contenteditable]")) return;
    if (event.key === "Enter") {
      if (target.closest("button") || event.repeat) return;
      event.preventDefault();
      go_on();
    } else if (/^[0-9]$/.test(event.key) && setting("keys") !== "no") {
      const digit = Number(event.key);
      if (pairwise) answer_pair(all, digit, target);
      else if (all[digit - 1]) go_to(all[digit - 1]);
    }
  });
}

function answer_pair(all, digit, target) {
  const meant = { 0: -1, 1: 0, 2: 1 }[digit];
  const own = target.closest("[data-criterion]");
  const question =
    all.find((one) => one.fieldset === own) ??
    open_ones(all)[0] ?? (all.length === 1 ? all[0] : undefined);
  if (meant === undefined || question?.fieldset.dataset.scale !== "pairwise") return;
  question.set(meant);
  question.focus();
  if (open_ones(all).length) go_to(open_ones(all)[0]);
}

// Practice: the server looks at the answers.

function practise() {
  const all = questions(() => {});
  form.addEventListener("submit", (event) => {
    if (show_open(all)) event.preventDefault();
  });
  if (all.length) keys(all, () => form.requestSubmit());
  form.dataset.ready = "yes";
}

// Rating

async function reason_of(response) {
  try {
    return (await response.json()).error;
  } catch {
    return "";
  }
}

// A criterion may be called `constructor`: nothing is answered that was not said.
function bare(answers) {
  return Object.assign(Object.create(null), answers);
}

class Rating {
  constructor() {
    this.shelf = new Shelf(form.dataset.storage);
    this.csrf = form.elements.csrf.value;
    this.id = form.dataset.id;
    this.items = null;
    this.current = new Map();
    this.clock = Number(form.dataset.clock);
    this.acknowledged = 0;
    this.shown = performance.now();
    this.delay = 1000;
    this.single = false;
    this.waiting_for_review = false;
    this.unfinished = new Map();
    this.last_status = document.getElementById("saved").textContent;
    this.questions = questions((question, value, finished) => this.answered(question, value, finished));
    this.comment = document.getElementById("comment");
    this.problem = document.getElementById("problem");
    const given = this.questions.filter((question) => question.value !== null);
    this.current.set(this.id, {
      answers: bare(Object.fromEntries(given.map((question) => [question.id, question.value]))),
      comment: this.comment.value,
      problem: this.problem.checked,
    });
    this.listen();
    history.replaceState({ id: this.id }, "");
    this.refresh().then(() => this.flush());
  }

  listen() {
    form.addEventListener("submit", (event) => this.submitted(event));
    this.comment.addEventListener("input", () => this.later("comment", () => this.said()));
    this.comment.addEventListener("blur", () => this.finish());
    this.problem.addEventListener("change", () => this.commit("problem", "", this.problem.checked));
    keys(this.questions, () => this.next(false));
    const usual = document.getElementById("keys");
    usual.checked = setting("keys") !== "no";
    usual.addEventListener("change", () => setting("keys", usual.checked));
    const plain = document.getElementById("plain");
    if (plain) {
      plain.checked = setting("plain") === "yes";
      plain.addEventListener("change", () => {
        setting("plain", plain.checked);
        this.finish();
        location.reload();
      });
    }
    const back_again = () => {
      this.delay = 1000;
      this.refresh().then(() => this.flush());
    };
    window.addEventListener("online", back_again);
    window.addEventListener("focus", back_again);
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") back_again();
      else this.finish();
    });
    window.addEventListener("pagehide", () => this.finish());
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) back_again();
    });
    window.addEventListener("storage", (event) => {
      if (event.key?.startsWith(this.shelf.prefix)) this.soon_refresh();
    });
    window.addEventListener("popstate", (event) => {
      this.finish();
      const at = this.items?.findIndex((item) => item.id === event.state?.id) ?? -1;
      if (at >= 0) this.show(at, false);
      else location.reload();
    });
  }

  soon_refresh() {
    clearTimeout(this.refreshing);
    this.refreshing = setTimeout(() => this.refresh(), 800);
  }

  // What the server knows; what is not sent yet stands above it.
  async refresh(patient = true) {
    let known;
    try {
      const response = await fetch(`${form.dataset.state}?items=${this.items ? 0 : 1}`, {
        headers: { Accept: "application/json" },
        signal: AbortSignal.timeout?.(15000),
      });
      if (response.status === 401) this.status("lost_session", true);
      if (!response.ok) return false;
      known = await response.json();
    } catch {
      return false;
    }
    if (known.storage !== form.dataset.storage) {
      this.foreign = true; // somebody else's link was opened in this browser
      this.status("lost_session", true);
      return false;
    }
    // read before what has been acknowledged since: it would show that as lost
    if (patient && known.clock < this.acknowledged) return this.refresh(false);
    this.foreign = false;
    this.csrf = known.csrf;
    for (const input of document.querySelectorAll("input[name=csrf]")) input.value = known.csrf;
    if (known.phase !== "rating" && known.phase !== "review") {
      location.assign(form.dataset.study);
      return false;
    }
    this.items ??= known.items;
    this.clock = Math.max(this.clock, known.clock);
    this.current = new Map(
      Object.entries(known.current).map(([id, one]) => [id, { ...one, answers: bare(one.answers) }]),
    );
    for (const event of this.shelf.events()) {
      this.clock = Math.max(this.clock, event.clock);
      this.put(event);
    }
    if (!this.unfinished.size) this.fill();
    form.dataset.ready = "yes"; // from here on, texts change without the network
    return true;
  }

  put({ kind, item, criterion, value }) {
    const one = this.current.get(item);
    if (!one) return;
    if (kind === "rating") one.answers[criterion] = value;
    else one[kind] = value;
  }

  fill() {
    const one = this.current.get(this.id);
    if (!one) return;
    for (const question of this.questions) {
      const value = one.answers[question.id] ?? null;
      if (String(value) !== String(question.value)) question.show(value);
    }
    if (document.activeElement !== this.comment) this.comment.value = one.comment;
    this.problem.checked = one.problem;
    this.count();
  }

  count() {
    if (!this.items) return;
    const asked = this.questions.length;
    const done = [...this.current.values()].filter((one) => Object.keys(one.answers).length >= asked);
    document.getElementById("progress").value = done.length;
  }

  // Answers

  answered(question, value, finished) {
    question.fieldset.classList.remove("is-open");
    if (!open_ones(this.questions).length) document.getElementById("open").hidden = true;
    if (finished) {
      this.forget(question.id);
      this.commit("rating", question.id, value);
    } else {
      this.later(question.id, () => this.commit("rating", question.id, question.value));
    }
  }

  // Keys and typing come in bursts: the last of one is what is said.
  later(name, say_it) {
    this.forget(name);
    const timer = setTimeout(() => {
      this.unfinished.delete(name);
      say_it();
    }, 500);
    this.unfinished.set(name, { timer, say_it });
    this.saving();
  }

  forget(name) {
    clearTimeout(this.unfinished.get(name)?.timer);
    this.unfinished.delete(name);
  }

  finish() {
    for (const [name, { say_it }] of [...this.unfinished]) {
      this.forget(name);
      say_it();
    }
  }

  said() {
    const text = this.comment.value.trim();
    this.commit("comment", "", text.toWellFormed ? text.toWellFormed() : text);
  }

  commit(kind, criterion, value) {
    const one = this.current.get(this.id) ?? { answers: bare({}), comment: "", problem: false };
    const before = kind === "rating" ? one.answers[criterion] : one[kind];
    if (String(before) === String(value)) {
      if (!this.is_in_trouble()) this.show_last_status();
      return;
    }
    this.current.set(this.id, one);
    this.clock = Math.max(this.clock, Number(this.shelf.get("clock")) || 0) + 1;
    this.shelf.set("clock", String(this.clock));
    const event = {
      uuid: uuid(),
      kind,
      item: this.id,
      criterion,
      value,
      clock: this.clock,
      client_ms: Math.round(performance.now() - this.shown),
    };
    this.put(event);
    this.shelf.set(`event.${event.uuid}`, JSON.stringify(event));
    this.count();
    this.flush();
  }

  status(name, waiting, text = say(name)) {
    const place = document.getElementById("saved");
    place.classList.toggle("waiting", waiting);
    if (place.textContent !== text) place.textContent = text;
  }

  is_in_trouble() {
    return document.getElementById("saved").classList.contains("waiting");
  }

  saving() {
    if (!this.is_in_trouble()) this.status("saving", false);
  }

  async flush() {
    if (this.busy || this.foreign) return;
    clearTimeout(this.retry);
    const all = this.shelf.events();
    if (!all.length) {
      if (this.waiting_for_review) this.review();
      return;
    }
    const events = all.slice(0, this.single ? 1 : 50);
    this.saving();
    this.busy = true;
    try {
      await this.send(events);
    } finally {
      this.busy = false;
    }
  }

  async send(events) {
    const body = JSON.stringify({ events });
    let response;
    try {
      response = await fetch(form.dataset.events, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRF-Token": this.csrf },
        body,
        keepalive: body.length < 50000,
        signal: AbortSignal.timeout?.(15000),
      });
      if (response.ok) {
        const { saved, clock } = await response.json();
        for (const one of saved) this.shelf.delete(`event.${one.uuid}`);
        this.clock = Math.max(this.clock, clock);
        this.acknowledged = Math.max(this.acknowledged, clock);
        this.delay = 1000;
        this.saved(saved.at(-1).at);
        setTimeout(() => this.flush(), 0);
        return;
      }
    } catch {
      this.again("waiting");
      return;
    }
    const ours = response.headers.get("Content-Type")?.startsWith("application/json");
    const full = ours && response.status === 429 && (await reason_of(response)) === "full";
    await this.not_saved(response.status, events, ours, full);
  }

  saved(at) {
    const time = new Intl.DateTimeFormat(document.documentElement.lang, {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    }).format(new Date(at));
    this.last_status = say("saved", { time });
    this.show_last_status();
  }

  show_last_status() {
    if (this.shelf.events().length) return;
    this.single = false;
    if (this.was_refused) this.status(this.was_refused, true);
    else if (this.unfinished.size) this.status("saving", false);
    else this.status("saved", false, this.last_status);
  }

  again(why) {
    this.status(why, true);
    this.retry = setTimeout(() => this.flush(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, 30000);
  }

  async not_saved(status, events, ours, full) {
    if (status === 401 || status === 403) {
      const before = this.csrf;
      const known = await this.refresh();
      if (known && this.csrf !== before) this.retry = setTimeout(() => this.flush(), 50);
      else this.status("lost_session", true);
    } else if (!full && (!ours || status === 408 || status === 429 || status >= 500)) {
      this.again("trouble"); // a proxy's 404 says nothing about an answer
    } else if (events.length > 1) {
      this.single = true; // find the one that is not accepted
      this.retry = setTimeout(() => this.flush(), 0);
    } else {
      this.shelf.delete(`event.${events[0].uuid}`);
      this.was_refused = full ? "full" : "refused";
      this.status(this.was_refused, true);
      await this.refresh();
      this.retry = setTimeout(() => this.flush(), 0);
    }
  }

  // Going on

  submitted(event) {
    const go = event.submitter?.value ?? "next";
    if (!this.items) {
      this.finish();
      return; // the form goes to the server as it would without us
    }
    event.preventDefault();
    if (go === "back") this.back();
    else this.next(go === "later");
  }

  at() {
    return this.items.findIndex((item) => item.id === this.id);
  }

  next(leave) {
    if (!this.items) {
      form.requestSubmit(document.getElementById("next"));
      return;
    }
    this.finish();
    if (!leave && show_open(this.questions)) return;
    const at = this.at();
    if (at + 1 < this.items.length) this.show(at + 1, true);
    else this.review();
  }

  back() {
    this.finish();
    const at = this.at();
    if (at > 0) this.show(at - 1, true);
  }

  async review() {
    this.waiting_for_review = true;
    if (this.shelf.events().length) {
      this.flush();
      return;
    }
    if (!(await this.refresh())) {
      this.again("waiting");
      return;
    }
    document.getElementById("to-review").requestSubmit();
  }

  show(at, push) {
    const item = this.items[at];
    this.waiting_for_review = false;
    this.id = item.id;
    this.shown = performance.now();
    const address = form.dataset.items + item.id;
    form.action = address;
    if (push) history.pushState({ id: item.id }, "", address);
    const task = document.getElementById("task");
    if (item.task) task.replaceChildren(element("bdi", { textContent: item.task }));
    document.querySelector("[data-given]")?.replaceChildren(...item.given.map((one) => part(one)));
    const texts = document.querySelector("[data-texts]");
    texts.className = `candidates n${item.texts.length}`;
    texts.replaceChildren(
      ...item.texts.map((one, n) =>
        part(one, item.texts.length > 1 ? say("text_n", { n: n + 1 }) : ""),
      ),
    );
    for (const question of this.questions) {
      question.texts?.(item.texts.map((one) => one.text));
      question.fieldset.classList.remove("is-open");
      question.show(this.current.get(item.id)?.answers[question.id] ?? null);
    }
    this.comment.value = this.current.get(item.id)?.comment ?? "";
    this.fill();
    document.getElementById("more").open = Boolean(this.comment.value) || this.problem.checked;
    document.getElementById("open").hidden = true;
    document.getElementById("back").disabled = at === 0;
    document.getElementById("counter").textContent = say("counter", { n: at + 1, total: this.items.length });
    window.scrollTo(0, 0);
    task.focus({ preventScroll: true });
  }
}

function part({ name, text, lang, dir }, heading = "") {
  const figure = element("figure", { className: "part" });
  if (heading) figure.append(element("figcaption", { textContent: heading }));
  else if (name) figure.append(element("figcaption", {}, element("bdi", { textContent: name })));
  const literally = text.trim()
    ? attributes(element("bdi", { textContent: text }), { dir, ...(lang ? { lang } : {}) })
    : element("span", { className: "no-text", textContent: say("no_text") });
  figure.append(element("blockquote", {}, literally));
  return figure;
}

document.documentElement.classList.add("js");
for (const one of document.querySelectorAll(".scripted")) one.hidden = false;
for (const one of document.querySelectorAll("[data-forget]")) new Shelf(one.dataset.forget).clear();
if (form?.dataset.page === "practice") practise();
if (form?.dataset.page === "rating") new Rating();
