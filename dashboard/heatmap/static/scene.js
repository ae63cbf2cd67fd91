// What Python sends: [length of header | header as JSON, padded to 4 | mask bits, padded to 4 | float32 numbers],
// the numbers of the allowed cells only where all others are nothing: zero, or minus infinity.

export function decode(bytes, before) {
  const copy = bytes.slice(); // at offset 0, so that the float32 view is aligned
  const headerLength = new DataView(copy.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(copy.subarray(4, 4 + headerLength)));
  const { queries, keys, sent } = header;
  const maskStart = 4 + headerLength;
  const maskLength = align(Math.ceil((queries * keys) / 8));
  const bits = copy.subarray(maskStart, maskStart + maskLength);
  const mask = before?.mask.equals(bits, queries, keys) ? before.mask : new Mask(bits, queries, keys);
  const scene = new Scene(header, mask, new Float32Array(copy.buffer, maskStart + maskLength, sent));
  scene.again = (changes) => encode({ ...header, ...changes }, copy.subarray(maskStart));
  return scene;
}

// The message of the same numbers under another header.
function encode(header, numbers) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const message = new Uint8Array(4 + align(text.length) + numbers.length).fill(32, 4, 4 + align(text.length));
  new DataView(message.buffer).setUint32(0, align(text.length), true);
  message.set(text, 4);
  message.set(numbers, 4 + align(text.length));
  return message;
}

const align = (n) => (n + 3) & ~3;

// Which cells of one head are allowed, and where in what was sent each of them stands.
class Mask {
  constructor(bits, queries, keys) {
    Object.assign(this, { bits, queries, keys });
    this.size = queries * keys;
    this.rank = new Int32Array(this.size).fill(-1);
    this.cells = new Uint32Array(this.size);
    this.count = 0;
    for (let i = 0; i < this.size; i++)
      if ((bits[i >> 3] >> (7 - (i & 7))) & 1) {
        this.rank[i] = this.count;
        this.cells[this.count++] = i;
      }
    this.cells = this.cells.subarray(0, this.count);
  }

  equals(bits, queries, keys) {
    return this.queries === queries && this.keys === keys && this.bits.every((byte, i) => byte === bits[i]);
  }
}

const named = (labels, position) => (labels.length ? `${position} “${labels[position]}”` : String(position));

export class Scene {
  constructor(header, mask, values) {
    Object.assign(this, header);
    this.mask = mask;
    this.values = values;
    this.packed = values.length === this.heads * mask.count;
    this.stride = this.packed ? mask.count : mask.size; // numbers sent for each head
    this.hasMask = mask.count < mask.size;
    this.infinite = this.kind === "difference" && values.includes(Infinity);
  }

  weight({ head, query, key }) {
    const cell = query * this.keys + key;
    const place = this.packed ? this.mask.rank[cell] : cell;
    return place < 0 ? 0 : this.values[head * this.stride + place];
  }

  // A forbidden cell that holds a number all the same is shown with it: that is a bug to be seen.
  isMasked(cell) {
    const number = this.weight(cell);
    return this.mask.rank[cell.query * this.keys + cell.key] < 0 && (number === 0 || number === -Infinity);
  }

  // What a row or a column is called: its label, where there are labels, or its position.
  tick(labels, position) {
    return labels[position] ?? String(position);
  }

  // A row in a sentence, where its position counts even if it has a label; and a column.
  row(position) {
    return named(this.rowLabels, position);
  }

  column(position) {
    return named(this.columnLabels, position);
  }

  // For the reader to fill in: its number was not sent.
  isBlank(cell) {
    return this.blank.includes(cell.query);
  }

  contains(cell) {
    return cell && cell.head < this.heads && cell.query < this.queries && cell.key < this.keys;
  }

  // The number at the end of a tile's colour scale: of weights the largest, of signed numbers the farthest from 0.
  most(tile) {
    if (this.scale !== "per-head") return Math.max(-this.low, this.high) || 1;
    let largest = 0;
    for (let i = tile * this.stride; i < (tile + 1) * this.stride; i++) {
      const size = Math.abs(this.values[i]);
      if (size > largest && size < Infinity) largest = size;
    }
    return largest || 1;
  }
}
