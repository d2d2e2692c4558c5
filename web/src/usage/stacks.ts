/** Rows of a usage report as stacked bars. Pure: it adds up and places, it prices nothing. */
import type { PriceOrigin, UsageTokens, UsageRow } from "../types.ts";

export interface Series {
  name: string;
  /** One number per day. */
  values: number[];
}

export interface Stacks {
  days: string[];
  series: Series[];
  /** The tallest day. */
  most: number;
}

const SERIES = 7;

export function sumTokens(tokens: UsageTokens): number {
  return (
    tokens.input + tokens.cache_read + tokens.cache_write + tokens.cache_write_1h + tokens.output + tokens.reasoning
  );
}

/** All days from the first to the last, as dates without a clock. */
export function daysBetween(first: string, last: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += 86_400_000) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}

/** Rows by day and model, as one series per model, the largest first; what is beyond the first few is added up as others. */
export function stack(rows: UsageRow[], days: string[], measure: (row: UsageRow) => number): Stacks {
  const at = new Map(days.map((day, index) => [day, index]));
  const models = new Map<string, number[]>();
  for (const row of rows) {
    const index = at.get(row.key["day"] ?? "");
    if (index === undefined) continue;
    const name = row.key["model"] ?? "model unknown";
    const values = models.get(name) ?? days.map(() => 0);
    values[index] = (values[index] ?? 0) + measure(row);
    models.set(name, values);
  }
  const total = (values: number[]): number => values.reduce((sum, value) => sum + value, 0);
  const all = [...models].map(([name, values]) => ({ name, values })).sort((a, b) => total(b.values) - total(a.values));
  const series = all.slice(0, SERIES);
  const rest = all.slice(SERIES);
  if (rest.length)
    series.push({ name: "others", values: days.map((_, day) => total(rest.map((one) => one.values[day] ?? 0))) });
  const most = Math.max(0, ...days.map((_, day) => total(series.map((one) => one.values[day] ?? 0))));
  return { days, series, most };
}

/** Whose prices these are, of which day; of one model, also as what it is listed. */
export function sayOrigins(prices: PriceOrigin[], model?: string | null): string {
  const found = prices.filter((one) => model === undefined || one.model === model);
  const origins = found.map((one) => {
    const listed = model === undefined || one.listed_as === one.model ? "" : `${one.listed_as}, `;
    return `${listed}${one.dated === null ? "your own" : `${one.source} of ${one.dated}`}${one.assumed ? " (assumed)" : ""}`;
  });
  return origins.length ? `Prices: ${[...new Set(origins)].join("; ")}` : "No price is known";
}
