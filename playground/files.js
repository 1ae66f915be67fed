// Files that were dropped, chosen or pasted, as the messages carry them.

const TEXT = /\.(ya?ml|json)$/i;
const PACKED = /\.(ya?ml|json)\.(gz|xz|bz2)$|\.(tar|tgz|txz|tbz2|zip|tar\.(gz|xz|bz2))$/i;

// Returns true for files that can hold objects. The logs of a support bundle, which are most of it, are not read.
export const isReadable = (name) => TEXT.test(name) || PACKED.test(name);

export async function sentFile(name, blob) {
  if (!PACKED.test(name)) return { name, text: await blob.text() };
  return { name, content: await base64(blob) };
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.readAsDataURL(blob);
  });
}

// Resolves to all files of a drop, those in folders included, as [name, file].
export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => [file.name, file]);
  const found = [];
  const pending = entries.map((entry) => [entry.name, entry]);
  while (pending.length) {
    const [name, entry] = pending.pop();
    if (entry.isFile) found.push([name, await new Promise((resolve, reject) => entry.file(resolve, reject))]);
    else for (const inner of await entriesOf(entry)) pending.push([`${name}/${inner.name}`, inner]);
  }
  return found.sort(([a], [b]) => (a < b ? -1 : 1));
}

async function entriesOf(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    // A reader returns a hundred entries at most with each call.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...some);
  }
}
