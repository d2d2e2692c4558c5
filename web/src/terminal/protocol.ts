/** The messages of a terminal's WebSocket: frames to bytes and back. Pure. */

export const LIVE = 0;
export const REPLAY = 1;
export const MODES = 2;

export interface Output {
  kind: number;
  /** The absolute offset of the first byte; meaningless for MODES. */
  offset: number;
  bytes: Uint8Array;
}

export interface Control {
  attached?: { offset: number; oldest: number; head: number; columns: number; rows: number; terminal?: string };
  gap?: { offset: number; end: number };
  size?: { columns: number; rows: number };
  exit?: number | null;
  failed?: { code: string; message: string };
  pong?: number;
}

const HEADER = 9;
export const LARGEST_INPUT = 32 * 1024;

export function readOutput(frame: ArrayBuffer): Output | null {
  if (frame.byteLength < HEADER) return null;
  const view = new DataView(frame);
  return { kind: view.getUint8(0), offset: Number(view.getBigUint64(1)), bytes: new Uint8Array(frame, HEADER) };
}

/** Input as frames small enough for the server. What is made during a replay is said to be: its answers are dropped. */
export function* writeInput(bytes: Uint8Array, inReplay: boolean): Generator<Uint8Array<ArrayBuffer>> {
  for (let start = 0; start < bytes.length; start += LARGEST_INPUT) {
    const part = bytes.subarray(start, start + LARGEST_INPUT);
    const frame = new Uint8Array(part.length + 1);
    frame[0] = inReplay ? 1 : 0;
    frame.set(part, 1);
    yield frame;
  }
}

/** What a terminal says by itself: device attributes, reports, colours, modes; and that it has the focus, or lost it. */
const ANSWERS = /^\x1b(?:\[[?>=]?[\d;]*[cnRt]|\[\??[\d;]*\$y|\[[IO]$|\]\d+;|P)/;
const POINTER = /^\x1b\[(?:<[\d;]*[Mm]|M)/;

export function isAnswer(data: string): boolean {
  return ANSWERS.test(data);
}

/** Where the pointer is and what it does: of use to nobody once the screen is another. */
export function isPointer(data: string): boolean {
  return POINTER.test(data);
}
