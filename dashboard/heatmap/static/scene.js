// What Python sends: [length of header | header as JSON, padded to 4 | mask bits, padded to 4 | float32 weights]

export function decode(bytes) {
  const copy = bytes.slice(); // at offset 0, so that the float32 view is aligned
  const headerLength = new DataView(copy.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(copy.subarray(4, 4 + headerLength)));
  const { heads, queries, keys } = header;
  const maskStart = 4 + headerLength;
  const maskLength = align(Math.ceil((queries * keys) / 8));
  const bits = copy.subarray(maskStart, maskStart + maskLength);
  const values = new Float32Array(copy.buffer, maskStart + maskLength, heads * queries * keys);
  return new Scene(header, bits, values);
}

const align = (n) => (n + 3) & ~3;

export class Scene {
  constructor(header, bits, values) {
    Object.assign(this, header);
    this.values = values;
    this.allowed = new Uint8Array(this.queries * this.keys);
    for (let i = 0; i < this.allowed.length; i++) this.allowed[i] = (bits[i >> 3] >> (7 - (i & 7))) & 1;
    this.hasMask = this.allowed.includes(0);
  }

  weight(cell) {
    return this.values[(cell.head * this.queries + cell.query) * this.keys + cell.key];
  }

  // A forbidden cell that holds a weight all the same is shown with it: that is a bug to be seen.
  isMasked(cell) {
    return !this.allowed[cell.query * this.keys + cell.key] && this.weight(cell) === 0;
  }

  contains(cell) {
    return cell && cell.head < this.heads && cell.query < this.queries && cell.key < this.keys;
  }

  largestOf(head) {
    let largest = 0;
    const size = this.queries * this.keys;
    for (let i = head * size; i < (head + 1) * size; i++) if (this.values[i] > largest) largest = this.values[i];
    return largest;
  }
}
