// Draws the page's figures from the JSON beside them. Texts come formatted; only axis ticks are made here.
(() => {
  "use strict";
  const root = document.documentElement;
  root.dataset.script = "";
  // Texts are measured in it, so it is named, not inherited.
  const family = getComputedStyle(document.body).fontFamily;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const charts = [];

  // Hover texts are built from text nodes: what a file says is never markup.
  const tip = ([title, lines]) => {
    const box = document.createElement("div");
    box.className = "tip";
    const head = document.createElement("strong");
    head.textContent = title;
    box.append(head);
    for (const [name, value] of lines) {
      const line = document.createElement("div");
      for (const text of [name, value]) {
        const part = document.createElement("span");
        part.textContent = text;
        line.append(part);
      }
      box.append(line);
    }
    return box;
  };
  const tooltip = () => ({
    trigger: "item", confine: true, borderWidth: 1, padding: [8, 11], transitionDuration: 0,
    backgroundColor: css("panel"), borderColor: css("line"), textStyle: { color: css("ink"), fontFamily: "inherit" },
    formatter: (at) => (at.data && at.data.tip ? tip(at.data.tip) : ""),
  });

  const digits = (x) => String(Number(x.toPrecision(3)));
  const bytes = (x) => (x >= 1e9 ? digits(x / 1e9) + " GB/s" : x >= 1e6 ? digits(x / 1e6) + " MB/s" : digits(x / 1e3) + " kB/s");
  const time = (ns) => (ns >= 1e9 ? digits(ns / 1e9) + " s" : ns >= 1e6 ? digits(ns / 1e6) + " ms" : ns >= 1e4 ? digits(ns / 1e3) + " us" : digits(ns) + " ns");
  const size = (x) => (x >= 2 ** 30 ? digits(x / 2 ** 30) + "GiB" : x >= 2 ** 20 ? digits(x / 2 ** 20) + "MiB" : x >= 2 ** 10 ? digits(x / 2 ** 10) + "KiB" : x + "B");
  const many = (n) => (n >= 1e6 ? digits(n / 1e6) + " M" : n >= 1e3 ? digits(n / 1e3) + " k" : digits(n));
  const percent = (x) => { const p = Number(((x - 1) * 100).toFixed(2)); return (p > 0 ? "+" : "") + p + " %"; };
  const seconds = (s) => digits(s) + " s";
  const factor = (x) => digits(x) + "x";

  const text = () => ({ color: css("soft"), fontSize: 12, fontFamily: family });
  const axis = (more) => ({
    axisLine: { show: false }, axisTick: { show: false },
    splitLine: { lineStyle: { color: css("grid") } },
    axisLabel: { ...text(), hideOverlap: true }, nameTextStyle: text(), ...more,
  });
  // Round values in even steps of 1, 2 or 5 times a power of ten.
  const evenly = (low, high, most) => {
    const rough = (high - low) / (most - 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough);
    const from = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12)));
  };
  // Round values within a logarithmic axis: 1, 2 and 5 times powers of ten as room allows, or even steps where those are fewer than three.
  const rounds = (low, high, most) => {
    const of = (steps, every) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
        if (power % every === 0) found.push(...steps.map((step) => Number((step * 10 ** power).toPrecision(12))));
      }
      return found.filter((value) => value >= low && value <= high);
    };
    const found = [[[1, 2, 5], 1], [[1, 5], 1], [[1], 1], [[1], 2], [[1], 3]].map(([steps, every]) => of(steps, every)).find((values) => values.length <= most) || [];
    if (found.length >= 3) return found;
    return evenly(low, high, most);
  };
  const ticked = (ticks, format, more) => axis({ ...more, axisTick: { show: false, customValues: ticks },
    axisLabel: { ...text(), hideOverlap: true, formatter: format, customValues: ticks } });
  const linear = (low, high, format, more, most = 8) => ticked(evenly(low, high, most), format, { type: "value", min: low, max: high, ...more });
  const logarithmic = (low, high, format, more, most = 8) => ticked(rounds(low, high, most), format, { type: "log", logBase: 10, min: low, max: high, ...more });
  // Ratios around 1: in percent where they are small, else as factors on a logarithmic axis.
  const ratios = (low, high, more) => {
    if (high / low < 1.9) {
      const room = Math.max((high - low) * 0.06, 0.002);
      return linear(low - room, high + room, percent, more, 6);
    }
    return logarithmic(low / 1.08, high * 1.12, factor, more);
  };
  const extent = (values) => [Math.min(...values), Math.max(...values)];

  const line = (points, style) => ({ type: "polyline", shape: { points }, style: { fill: null, lineWidth: 1.5, ...style }, silent: true });
  const inside = (params, x, y) => {
    const { coordSys: c } = params;
    return [Math.min(Math.max(x, c.x), c.x + c.width), Math.min(Math.max(y, c.y), c.y + c.height)];
  };
  // From end to end of an interval; an arrow where it goes on beyond the frame.
  const whisker = (params, ends, style) => {
    const cut = ends.map(([x, y]) => inside(params, x, y));
    const arrow = ([x, y], end) => {
      const [right, down] = [ends[end][0] - x, ends[end][1] - y].map((beyond) => Math.sign(Math.round(beyond)));
      const points = [[x, y], ...[-5, 5].map((side) => [x - 8 * right + side * down, y - 8 * down + side * right])];
      return right || down ? [{ type: "polygon", silent: true, shape: { points }, style: { fill: style.stroke, opacity: style.opacity } }] : [];
    };
    return { type: "group", silent: true, children: [line(cut, style), ...cut.flatMap(arrow)] };
  };

  // Room for the names of rows, which break where that is little.
  const heatNames = (data, width) => Math.min(width * 0.3, 14 + 7 * Math.max(...data.rows.map((row) => row.length)));
  const heatRow = (data, width) => {
    const lines = Math.ceil((7 * Math.max(...data.rows.map((row) => row.length))) / (heatNames(data, width) - 8));
    // Words are not cut, so that lines do not fill up.
    return 8 + 14 * (lines + (lines > 1 && width < 520 ? 1 : 0));
  };

  // Names of rows, which are wrapped and never cut: how wide they may be, and how many lines the longest takes. Where there
  // is little room they stand above their bars.
  const LINE = 15;
  const nameRoom = ({ rows }, width) => {
    const narrow = width < 520;
    const longest = Math.max(...rows.map((row) => row.name.length));
    const names = narrow ? 8 : Math.min(Math.max(60, 14 + 7 * longest), width * 0.44);
    const letters = Math.max(Math.floor((narrow ? width - 20 : names - 12) / 7), 4);
    const taken = (name) => {
      let [lines, used] = [1, 0];
      for (const { length } of name.split(/(?<=[ -])/)) {
        if (used > 0 && used + length > letters) [lines, used] = [lines + 1, 0];
        lines += Math.floor(Math.max(length - 1, 0) / letters);
        used = used + length > letters ? length % letters : used + length;
      }
      return lines;
    };
    return { narrow, names, lines: Math.max(1, ...rows.map((row) => taken(row.name))) };
  };

  const shapes = { dot: "circle", triangle: "triangle", square: "rect", diamond: "diamond" };

  const kinds = {
    frontier(data, width) {
      const { points } = data;
      // What is alone is at 1, or at a time of its own, if that is known.
      const alone = data.ns ? (data.alone ? [data.alone] : []) : [1];
      const scale = data.count ? 1 : 1e9;
      // Very wide whiskers would squeeze what is to be compared; they are cut at the frame.
      const [lowest, highest] = extent(points.map((p) => p.x[0]).concat(alone));
      const [left, right] = extent(points.flatMap((p) => [p.x[0], Math.max(p.x[1], lowest * 0.85), Math.min(p.x[2], highest * 1.25)]).concat(alone));
      // In GB/s, so that the axis ticks at round figures.
      const rates = points.map((p) => p.y[0] / scale);
      const efficient = points.filter((p) => p.standing === "efficient").sort((a, b) => a.x[0] - b.x[0]);
      const title = { name: data.x, nameLocation: "middle", nameGap: 30 };
      const xAxis = data.ns ? logarithmic(left / 1.3, right * 1.3, time, title, width < 520 ? 5 : 8) : ratios(left, right, title);
      const scaled = xAxis.type === "log" ? Math.log : Number;
      const at = (p) => (scaled(p.x[0]) - scaled(xAxis.min)) / (scaled(xAxis.max) - scaled(xAxis.min));
      const [slowest, fastest] = extent(rates);
      const wide = (p) => 20 + 7 * p.name.length;
      // Whether another point lies where the label would be, on the right.
      const taken = (p) => points.some((other) => at(other) > at(p) && (at(other) - at(p)) * (width - 102) < wide(p)
        && Math.abs(Math.log(other.y[0] / p.y[0])) < 0.06 * Math.log(fastest / slowest));
      const toLeft = (p) => at(p) > 0.8 || (taken(p) && at(p) * (width - 102) > wide(p));
      const shape = (p) => (p.standing === "unfenced" ? "diamond" : p.paced ? "triangle" : "circle");
      const item = (p) => {
        const open = p.standing === "unfenced";
        const color = css(p.color);
        const named = !open && (p.standing === "efficient" || !p.paced);
        return {
          value: [p.x[0], p.y[0] / scale], tip: p.tip, symbol: shape(p),
          symbolSize: p.standing === "efficient" ? 15 : open ? 11 : 11,
          itemStyle: open ? { color: css("panel"), borderColor: color, borderWidth: 1.8, opacity: 0.8 }
            : { color, borderColor: p.standing === "efficient" ? css("ink") : css("panel"), borderWidth: p.standing === "efficient" ? 2 : 1 },
          label: { show: named, formatter: () => p.name, ...text(), fontSize: 12.5,
            // Beside its point, on the side with room, and off the whisker.
            position: toLeft(p) ? "left" : "right", distance: 6,
            color: p.standing === "efficient" ? css("ink") : css("soft"), fontWeight: p.standing === "efficient" ? 600 : 400,
            width: width < 520 ? 110 : 190, overflow: "truncate" },
        };
      };
      return {
        grid: { left: 76, right: 26, top: 26, bottom: 46 },
        xAxis,
        yAxis: logarithmic(Math.min(...rates) / 1.25, Math.max(...rates) * 1.25, data.count ? many : (x) => bytes(x * 1e9),
          { name: data.y, nameTextStyle: { ...text(), align: "left", padding: [0, 0, 0, -68] }, nameGap: 12 }),
        series: [
          { type: "line", step: "end", silent: true, symbol: "none", z: 1, data: efficient.map((p) => [p.x[0], p.y[0] / scale]),
            lineStyle: { color: css("soft"), type: [4, 4], width: 1.2 } },
          { type: "custom", silent: true, z: 2, data: points.map((p) => ({ value: [...p.x, ...p.y.map((y) => y / scale)] })), encode: { x: [0, 1, 2], y: [3, 4, 5] },
            renderItem: (params, api) => {
              const p = points[params.dataIndex];
              const style = { stroke: css(p.color), opacity: p.standing === "unfenced" ? 0.35 : 0.6 };
              const at = (i, j) => api.coord([api.value(i), api.value(j)]);
              return { type: "group", silent: true, children: [whisker(params, [at(1, 3), at(2, 3)], style), whisker(params, [at(0, 4), at(0, 5)], style)] };
            } },
          { type: "scatter", z: 3, data: points.map(item), 
            labelLayout: ({ dataIndex }) => ({ dy: points[dataIndex].paced ? 9 : -9, hideOverlap: true }),
            markLine: { silent: true, symbol: "none", data: alone.map((at) => ({ xAxis: at })), lineStyle: { color: css("soft"), type: "solid", width: 1, opacity: 0.5 },
              label: { show: false } } },
        ],
      };
    },

    heat(data, width) {
      const [low, high] = data.range.map(Math.log);
      const mix = (a, b, t) => {
        const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
        const [x, y] = [rgb(a), rgb(b)];
        return x.map((v, i) => Math.round(v + (y[i] - v) * t));
      };
      const color = (cell) => {
        if (cell.value === null) return mix(css("none"), css("none"), 0);
        const log = Math.log(cell.value);
        if (data.scale === "more") return mix(css("pale"), css("dark"), high > low ? 0.04 + 0.92 * (log - low) / (high - low) : 0);
        return mix(css("none"), css(log > 0 ? "slower" : "faster"), Math.min(1, 0.2 + 0.75 * Math.abs(log) / high));
      };
      // Whichever has the greater contrast, by the relative luminance of WCAG; that is 4.5 at least on any colour.
      const readable = (rgb) => {
        const [r, g, b] = rgb.map((v) => (v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
      };
      const names = heatNames(data, width);
      const cells = data.cells.map((cell) => ({ value: [cell.column, cell.row], tip: cell.tip }));
      return {
        grid: { left: names, right: 4, top: 30, bottom: 6 },
        xAxis: axis({ type: "category", data: data.columns, position: "top", splitLine: { show: false }, axisLabel: { ...text(), interval: 0, width: (width - names) / data.columns.length - 4, overflow: "break", lineHeight: 14 } }),
        yAxis: axis({ type: "category", data: data.rows, inverse: true, splitLine: { show: false }, axisLabel: { ...text(), color: css("ink"), interval: 0, width: names - 8, overflow: "break", lineHeight: 14 } }),
        series: [{ type: "custom", data: cells, encode: { x: 0, y: 1 }, renderItem: (params, api) => {
          const cell = data.cells[params.dataIndex];
          const [x, y] = api.coord([cell.column, cell.row]);
          const [w, h] = api.size([1, 1]);
          const rgb = color(cell);
          return { type: "group", children: [
            { type: "rect", shape: { x: x - w / 2 + 2, y: y - h / 2 + 2, width: w - 4, height: h - 4, r: 6 },
              style: { fill: `rgb(${rgb.join(",")})`, opacity: cell.faint && data.scale === "more" ? 0.55 : 1 } },
            { type: "text", silent: true, style: { x, y, text: w < 56 ? cell.text.replace(/\s/, "\n") : cell.text, align: "center", verticalAlign: "middle", fontFamily: family, lineHeight: 12, fontSize: w < 56 ? 10 : w < 80 ? 11.5 : 13,
              fontWeight: cell.faint ? 400 : 600, fill: cell.value === null ? css("soft") : cell.faint && data.scale === "more" ? css("ink") : readable(rgb) } },
          ] };
        } }],
      };
    },

    time(data) {
      const values = data.points.flatMap((p) => [p[1], p[3]]);
      // A few outliers would squash the rest: what lies beyond Tukey's outer fences, of logarithms, and is at most a twentieth
      // to either side, is drawn at the frame, and counted.
      const sorted = data.points.map((p) => Math.log(p[2])).sort((a, b) => a - b);
      const share = (of) => sorted[Math.round((sorted.length - 1) * of)] || 0;
      const far = 3 * Math.max(share(0.75) - share(0.25), 0.02);
      const [least, most] = extent(values.concat(1));
      const low = Math.max(least, Math.min(Math.exp(Math.min(share(0.25) - far, share(0.05))), 1));
      const high = Math.min(most, Math.max(Math.exp(Math.max(share(0.75) + far, share(0.95))), 1));
      const within = (value) => Math.min(Math.max(value, low), high);
      const beyond = data.points.filter((p) => within(p[2]) !== p[2]).length;
      const counted = beyond === 0 ? {} : { name: beyond + (beyond === 1 ? " outlier (triangle) lies" : " outliers (triangles) lie") + " beyond the frame",
        nameGap: 8, nameTextStyle: { ...text(), align: "left", padding: [0, 0, 0, -46] } };
      const series = data.classes.map((name, number) => {
        const own = data.points.filter((p) => p[4] === number);
        return { name, own };
      }).filter(({ own }) => own.length > 0);
      const about = (p, name) => {
        const one = p[6] === 1;
        const lines = one ? [["time per unit", factor(p[2])]] : [["median", factor(p[2])], ["least, greatest", factor(p[1]) + ", " + factor(p[3])], ["windows", String(p[6])]];
        if (one && p[7] >= 0) lines.unshift(["case", data.cases[p[7]]]);
        lines.push(["trial", String(p[5])], ["class", name]);
        if (p[8] >= 0) lines.push(["round trip", time(p[8])]);
        return ["at " + digits(p[0]) + " s", lines];
      };
      return {
        grid: { left: 52, right: 14, top: beyond === 0 ? 12 : 28, bottom: 26 },
        dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl" }],
        xAxis: linear(0, Math.max(...data.points.map((p) => p[0])) || 1, seconds, { splitLine: { show: false } }),
        yAxis: ratios(low, high, counted),
        series: series.flatMap(({ name, own }) => [
          { type: "custom", silent: true, data: own.filter((p) => p[6] > 1).map((p) => ({ value: [p[0], p[1], p[3]] })), encode: { x: 0, y: [1, 2] },
            renderItem: (params, api) => {
              const [x, y] = api.coord([api.value(0), api.value(1)]);
              return line([inside(params, x, y), inside(params, x, api.coord([api.value(0), api.value(2)])[1])], { stroke: css(name), opacity: 0.35, lineWidth: 1 });
            } },
          { type: "scatter", symbolSize: own.length > 250 ? 3.6 : 5.5, itemStyle: { color: css(name), opacity: 0.75 },
            data: own.map((p) => ({ value: [p[0], within(p[2])], tip: about(p, name),
              ...(within(p[2]) === p[2] ? {} : { symbol: "triangle", symbolRotate: p[2] > high ? 0 : 180, symbolSize: 8 }) })) },
        ]),
      };
    },

    // Every run by its round and its time. Rounds that are warm-up are left of a line.
    runs(data, width) {
      const [least, most] = extent(data.points.flatMap((p) => [p[3], p[4]]).concat(data.points.length ? [] : [1]));
      // One run that takes ten times as long leaves the others apart on a logarithmic axis alone.
      const logs = least > 0 && most / least > 3;
      // In s, ms or us, so that the axis ticks at round figures.
      const unit = [1e9, 1e6, 1e3, 1].find((unit) => least >= unit) || 1;
      const room = Math.max((most - least) * 0.06, most * 0.002);
      // As many places as ticks need to differ: times of a second may lie a millisecond apart.
      const places = Math.min(Math.max(Math.ceil(-Math.log10((most - least + 2 * room) / unit / 6)), 0), 9);
      const tick = (x) => (logs ? time(x * unit) : Number(x.toFixed(places)) + { 1e9: " s", 1e6: " ms", 1e3: " us", 1: " ns" }[unit]);
      const last = Math.max(1, ...data.points.map((p) => p[1] + p[5] - 1));
      // Runs of a round stand beside each other.
      const middle = (p) => p[1] + (p[5] - 1) / 2 + ((p[0] + 0.5) / data.cases.length - 0.5) * 0.7;
      const about = (p) => {
        const one = p[5] === 1;
        const lines = one ? [["time", time(p[2])]] : [["median", time(p[2])], ["least, greatest", time(p[3]) + ", " + time(p[4])], ["runs", String(p[5])]];
        if (p[1] <= data.warm_up) lines.push(["", "warm-up"]);
        if (p[6] > 0) lines.push([one ? "" : "failed", one ? "failed" : String(p[6])]);
        return [data.cases[p[0]][0] + ", round " + p[1], lines];
      };
      const opacity = (p) => (p[1] <= data.warm_up ? 0.3 : 0.8);
      return {
        grid: { left: 74, right: 14, top: 12, bottom: 44 },
        dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl" }],
        xAxis: linear(0, last + 1, (round) => (Number.isInteger(round) && round > 0 && round <= last ? many(round) : ""),
          { name: "round", nameLocation: "middle", nameGap: 28, splitLine: { show: false } }),
        yAxis: logs ? logarithmic(least / unit / 1.15, (most / unit) * 1.15, tick)
          : linear(Math.max(least - room, 0) / unit, (most + room) / unit, tick, {}, 6),
        series: data.cases.flatMap(([, color, shape], number) => {
          const own = data.points.filter((p) => p[0] === number);
          return [
            { type: "custom", silent: true, data: own.filter((p) => p[5] > 1).map((p) => ({ value: [middle(p), p[3] / unit, p[4] / unit, opacity(p)] })), encode: { x: 0, y: [1, 2] },
              renderItem: (params, api) => {
                const ends = [1, 2].map((i) => inside(params, ...api.coord([api.value(0), api.value(i)])));
                return line(ends, { stroke: css(color), opacity: 0.4 * api.value(3), lineWidth: 1 });
              } },
            { type: "scatter", symbol: shapes[shape], symbolSize: own.length * width < 40000 ? 7 : own.length < 600 ? 5 : 3.6, emphasis: { focus: "series" },
              // A run that failed has a border.
              data: own.map((p) => ({ value: [middle(p), p[2] / unit], tip: about(p), itemStyle: { color: css(color), opacity: opacity(p), ...(p[6] > 0 ? { borderColor: css("bad"), borderWidth: 2 } : {}) } })),
              markLine: number === 0 && data.warm_up > 0 ? { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: css("soft"), type: [3, 3], width: 1 }, data: [{ xAxis: data.warm_up + 0.5 }] } : undefined },
          ];
        }),
      };
    },

    // The longest latencies, bytes in the page cache and the disk's time, one under the other on one axis of time.
    stalls(data, width) {
      const longest = data.points.filter((p) => p[3] > 0);
      const cached = data.points.filter((p) => p[4] >= 0);
      const busy = data.points.filter((p) => p[6] >= 0);
      const parts = [[longest, 170], [cached, 80], [busy, 60]].filter(([points]) => points.length > 0);
      const place = new Map(parts.map(([points], number) => [points, number]));
      let top = 24;
      const grids = parts.map(([, height]) => {
        const grid = { left: 62, right: 14, top, height };
        top += height + 40;
        return grid;
      });
      const end = Math.max(...data.points.map((p) => p[0] + p[1]));
      const about = (p) => {
        const lines = [["case", data.cases[p[2]][0]]];
        if (p[3] > 0) lines.push(["longest " + data.unit, time(p[3])]);
        if (p[4] >= 0) lines.push(["dirty", size(p[4])], ["being written back", size(p[5])]);
        if (p[6] >= 0) lines.push(["disk busy", Math.round(p[6] * 100) + " %"]);
        return ["at " + digits(p[0]) + " s, for " + digits(p[1]) + " s", lines];
      };
      const series = [];
      const stops = { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: css("ink"), type: [3, 3], width: 1, opacity: 0.6 }, data: data.stops.map((at) => ({ xAxis: at })) };
      if (place.has(longest)) {
        data.cases.forEach(([name, color, shape], number) => {
          const own = longest.filter((p) => p[2] === number);
          if (own.length === 0) return;
          series.push({ type: "scatter", name, xAxisIndex: place.get(longest), yAxisIndex: place.get(longest), symbol: shapes[shape], symbolSize: own.length > 250 ? 4.5 : 7,
            itemStyle: { color: css(color), opacity: 0.85 }, data: own.map((p) => ({ value: [p[0] + p[1] / 2, p[3]], tip: about(p) })), markLine: series.length ? undefined : stops });
        });
      }
      if (place.has(cached)) {
        const line = (color, i) => ({ type: "line", xAxisIndex: place.get(cached), yAxisIndex: place.get(cached), symbol: "circle", symbolSize: 4, showSymbol: cached.length < 200,
          lineStyle: { color: css(color), width: 1.5 }, itemStyle: { color: css(color) }, data: cached.map((p) => ({ value: [p[0] + p[1], Math.max(p[i], 0)], tip: about(p) })) });
        series.push({ ...line("clflushopt", 4), markLine: stops }, line("msync", 5));
      }
      if (place.has(busy)) {
        series.push({ type: "custom", clip: true, xAxisIndex: place.get(busy), yAxisIndex: place.get(busy), encode: { x: [0, 1], y: 2 },
          data: busy.map((p) => ({ value: [p[0], p[0] + p[1], p[6]], tip: about(p) })), markLine: stops,
          renderItem: (params, api) => {
            const p = busy[params.dataIndex];
            const [x, y] = api.coord([api.value(0), api.value(2)]);
            const [to] = api.coord([api.value(1), 0]);
            const { coordSys: c } = params;
            return { type: "rect", shape: { x, y, width: Math.max(to - x, 1), height: c.y + c.height - y }, style: { fill: css(data.cases[p[2]][1]), opacity: 0.7 } };
          } });
      }
      // Ticks at round figures of the units that bytes are shown in.
      const most = Math.max(1 << 12, ...cached.map((p) => Math.max(p[4], p[5])));
      const step = 2 ** Math.ceil(Math.log2(most / 2.5));
      const room = (points) => (points === longest ? "longest " + data.unit : points === cached ? "page cache" : "disk busy");
      const last = parts.length - 1;
      return {
        grid: grids,
        dataZoom: [{ type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", xAxisIndex: parts.map((_, number) => number) }],
        xAxis: parts.map((_, number) => linear(0, end, number === last ? seconds : () => "", { gridIndex: number, splitLine: { show: false } })),
        yAxis: parts.map(([points], number) => {
          const named = { gridIndex: number, name: room(points), nameGap: 12, nameTextStyle: { ...text(), align: "left", padding: [0, 0, 0, -56] } };
          const [low, high] = extent(points.map((p) => p[3]));
          if (points === longest) return logarithmic(low / 1.5, high * 1.5, time, named, 6);
          return axis({ ...named, type: "value", min: 0, ...(points === busy ? { max: 1, interval: 0.5 } : { interval: step, max: step * Math.ceil(most / step) }),
            axisLabel: { ...text(), hideOverlap: true, formatter: points === cached ? size : (x) => Math.round(x * 100) + " %" } });
        }),
        series,
      };
    },

    // Quantiles over how few are longer, both logarithmic. Ticks are at the quantiles' names, and at round times.
    quantiles(data, width) {
      const log = (x) => Math.log10(Math.max(x, 1e-9));
      const curves = data.lines.flatMap((one) => [...one.borne, ...one.rest]);
      const right = Math.max(0.4, ...curves.map(([one]) => log(one)));
      const [low, high] = extent([...curves.map(([, ns]) => ns), ...data.points.map((p) => p.figure[0])].map(log));
      const room = Math.max((high - low) * 0.06, 0.02);
      const [bottom, top] = [low - room, high + room];
      // None at the foot, where the quantiles' names are.
      const times = rounds(10 ** low, 10 ** top, 8);
      const names = [...(width < 520 ? [] : [[1, "least"]]), [2, "p50"], [10, "p90"], [100, "p99"], [1e3, "p99.9"], [1e4, "p99.99"], [1e5, "p99.999"]].filter(([one]) => log(one) <= right + 0.02);
      const rule = { color: css("grid"), type: "solid", width: 1 };
      const grid = [...names.map(([one, name]) => ({ xAxis: log(one), lineStyle: rule, label: { position: "start", formatter: name, ...text() } })),
        ...times.map((ns) => ({ yAxis: log(ns), lineStyle: rule, label: { position: "start", formatter: time(ns), ...text() } }))];
      const at = ([one, ns]) => [log(one), log(ns)];
      // Bars at the same quantile stand beside each other.
      const apart = Math.min(5, 36 / data.lines.length);
      const aside = (p) => (p.line - (data.lines.length - 1) / 2) * apart;
      const part = (points, color, type) => ({ type: "line", silent: true, symbol: "none", z: 2, data: points.map(at), lineStyle: { color: css(color), width: 2, type } });
      const hidden = (min, max) => axis({ type: "value", min, max, splitLine: { show: false }, axisLabel: { show: false } });
      return {
        grid: { left: 62, right: 26, top: 14, bottom: 28 },
        xAxis: hidden(0, right + 0.06),
        yAxis: hidden(bottom, top),
        series: [
          { type: "line", silent: true, symbol: "none", data: [], z: 0, markLine: { silent: true, symbol: "none", z: 0, data: grid } },
          ...data.lines.flatMap((one) => [part(one.borne, one.color, "solid"), part(one.rest, one.color, [5, 4])]),
          { type: "custom", silent: true, z: 3, data: data.points.map((p) => [log(p.one_in), log(p.figure[0])]), renderItem: (params, api) => {
            const p = data.points[params.dataIndex];
            const end = (i) => { const [x, y] = api.coord([log(p.one_in), log(p.figure[i])]); return [x + aside(p), y]; };
            return whisker(params, [end(1), end(2)], { stroke: css(data.lines[p.line].color), lineWidth: p.chosen ? 3 : 2, opacity: 0.6 });
          } },
          { type: "scatter", z: 4, data: data.points.map((p) => ({ value: [log(p.one_in), log(p.figure[0])], tip: p.tip, symbol: shapes[p.shape], symbolSize: p.chosen ? 12 : 7, symbolOffset: [aside(p), 0],
            itemStyle: { color: css(data.lines[p.line].color), borderColor: css(p.chosen ? "ink" : "panel"), borderWidth: p.chosen ? 1.5 : 1 } })) },
        ],
      };
    },

    // A row for each case, with a dot for each quantile and for the longest.
    dots(data, width) {
      const { rows } = data;
      const { narrow, names, lines } = nameRoom(data, width);
      const drop = narrow ? 2 + 6 * lines : 0;
      const all = rows.flatMap((row, number) => row.dots.map((dot) => ({ ...dot, number })));
      const [low, high] = extent(all.map((dot) => dot.ns));
      return {
        grid: { left: names, right: 26, top: 6, bottom: 26 },
        xAxis: logarithmic(low / 1.3, high * 1.3, time, {}, width < 520 ? 5 : 10),
        yAxis: axis({ type: "category", data: rows.map((row) => row.name), inverse: true, splitLine: { show: true, lineStyle: { color: css("grid") } },
          axisLabel: { ...text(), show: !narrow, color: css("ink"), interval: 0, width: names - 12, overflow: "break", lineHeight: LINE } }),
        series: [
          { type: "custom", silent: true, z: 1, data: rows.map((row, number) => [...extent(row.dots.map((dot) => dot.ns)), number]), encode: { x: [0, 1], y: 2 },
            renderItem: (params, api) => {
              const ends = [0, 1].map((i) => api.coord([api.value(i), api.value(2)])).map(([x, y]) => [x, y + drop]);
              const name = rows[params.dataIndex].name;
              const label = { type: "text", style: { verticalAlign: "bottom", fontSize: 12, fontFamily: family, lineHeight: LINE, x: params.coordSys.x + 2, y: ends[0][1] - 9, text: name,
                width: params.coordSys.width, overflow: "break", fill: css("ink") } };
              return { type: "group", silent: true, children: [line(ends, { stroke: css("soft"), opacity: 0.4 }), ...(narrow ? [label] : [])] };
            } },
          { type: "scatter", z: 3, symbolOffset: [0, drop], data: all.map((dot) => ({ value: [dot.ns, dot.number], tip: dot.tip, symbol: shapes[dot.shape], symbolSize: 10,
            itemStyle: { color: css(dot.color), opacity: dot.faint ? 0.45 : 1, borderColor: css("panel"), borderWidth: 1 } })) },
        ],
      };
    },

    histogram(data, width) {
      const [from] = extent(data.bars.map((bar) => bar[0]));
      const [, to] = extent(data.bars.map((bar) => bar[1]));
      const [, most] = extent(data.bars.map((bar) => bar[2]));
      // Marks too near to each other for their names have one label, at the first of them.
      const place = (at) => Math.log(at / from) / Math.log(to / from);
      const near = ([names, a], b) => (place(b) - place(a)) * (width - 80) < 10 + 6.5 * names.length;
      const side = (at) => (place(at) < 0.3 ? "left" : place(at) > 0.7 ? "right" : "center");
      const marks = [];
      for (const [name, at] of [...data.marks].sort((a, b) => a[1] - b[1])) {
        const first = marks.findLast((mark) => mark[2]);
        const joined = first && near(first, at);
        if (joined) first[0] += ", " + name;
        marks.push([name, at, !joined]);
      }
      return {
        grid: { left: 56, right: 24, top: 26, bottom: 30 },
        xAxis: logarithmic(from, to, time, { splitLine: { show: false } }),
        yAxis: axis({ type: "log", min: 0.5, max: most * 1.5, axisLabel: { ...text(), formatter: (n) => (n < 1 ? "" : many(n)), showMaxLabel: false } }),
        series: [{ type: "custom", data: data.bars.map(([a, b, n, name]) => ({ value: [a, b, n], tip: [name, []] })), encode: { x: [0, 1], y: 2 },
          renderItem: (params, api) => {
            const [x, y] = api.coord([api.value(0), api.value(2)]);
            const [end] = api.coord([api.value(1), 1]);
            const { coordSys: c } = params;
            return { type: "rect", shape: { x, y, width: Math.max(end - x - 1, 1), height: c.y + c.height - y }, style: { fill: css("clwb") } };
          },
          markLine: { silent: true, symbol: "none", lineStyle: { color: css("ink"), type: [3, 3], width: 1 }, data: marks.map(([name, at, shown]) => ({ xAxis: at, name: shown ? name : "", label: { align: side(at) } })),
            label: { formatter: (mark) => mark.name, ...text(), color: css("ink") } } }],
      };
    },

    ranges(data, width) {
      const rows = data.rows;
      const { narrow, names, lines } = nameRoom(data, width);
      const shown = rows.map((row, number) => ({ row, number })).filter(({ row }) => row.figure);
      const values = shown.map(({ row }) => row.figure[0]);
      const [lowest, highest] = extent(values.length ? values : [1]);
      const bounds = shown.flatMap(({ row }) => [row.figure[0], Math.max(row.figure[1], lowest * 0.7), Math.min(row.figure[2], highest * 1.4)]);
      const slowdown = data.unit === "slowdown";
      const [low, high] = extent(bounds.concat(slowdown ? 1 : [], data.mark ? data.mark[0] : [], bounds.length ? [] : 1));
      const drop = narrow ? 2 + 6 * lines : 0;
      const budget = data.mark && { type: "custom", silent: true, z: 0, data: [[data.mark[0], 0]], encode: { x: 0, y: 1 },
        renderItem: (params, api) => {
          const { coordSys: c } = params;
          const [end] = inside(params, api.coord([data.mark[0], 0])[0], c.y);
          return { type: "rect", silent: true, shape: { x: c.x, y: c.y, width: end - c.x, height: c.height }, style: { fill: css("good"), opacity: 0.09 } };
        } };
      const across = { name: data.axis, nameLocation: "middle", nameGap: 28, nameTruncate: { maxWidth: width - names - 20 } };
      const from = data.mark ? Math.log(data.mark[0] / low) / Math.log(high / low) : 0;
      const faint = (row) => (row.faint ? 0.55 : 1);
      // A word in place of a figure has room; a reason has it in the table.
      const told = (row) => row.text.length > 1 && row.text.length < 14;
      return {
        grid: { left: names, right: 74, top: data.mark ? 22 : 6, bottom: 44 },
        xAxis: slowdown ? ratios(low, high, across)
          : high / low > 4 ? logarithmic(low / 1.2, high * 1.2, time, across, width < 520 ? 4 : 7)
          : linear(0, high * 1.05, time, across, width < 520 ? 4 : 7),
        yAxis: axis({ type: "category", data: rows.map((row) => row.name), inverse: true, splitLine: { show: true, lineStyle: { color: css("grid") } },
          axisLabel: { ...text(), show: !narrow, color: css("ink"), interval: 0, width: names - 12, overflow: "break", lineHeight: LINE } }),
        series: [
          ...(budget ? [budget] : []),
          { type: "custom", silent: true, data: shown.map(({ row, number }) => ({ value: [row.figure[1], row.figure[2], number] })), encode: { x: [0, 1], y: 2 },
            renderItem: (params, api) => {
              const { row, number } = shown[params.dataIndex];
              const [x, middle] = api.coord([api.value(0), number]);
              const y = middle + drop;
              return whisker(params, [[x, y], [api.coord([api.value(1), number])[0], y]], { stroke: css(row.color), lineWidth: 3, opacity: 0.55 * faint(row) });
            } },
          { type: "scatter", symbolSize: 10, symbolOffset: [0, drop], data: shown.map(({ row, number }) => ({ value: [row.figure[0], number], tip: row.tip, itemStyle: { color: css(row.color), opacity: faint(row) } })),
            markLine: slowdown || data.mark ? { silent: true, symbol: "none", lineStyle: { color: css("soft"), type: "solid", width: 1, opacity: 0.6 }, label: { show: false },
              data: [...(slowdown ? [{ xAxis: 1 }] : []), ...(data.mark ? [{ xAxis: data.mark[0], lineStyle: { color: css("ink"), type: [4, 3], opacity: 0.8 }, label: { show: true, position: "start", formatter: data.mark[1] + " " + (slowdown ? percent(data.mark[0]) : time(data.mark[0])), ...text(), color: css("ink"), align: from < 0.2 ? "left" : from > 0.8 ? "right" : "center" } }] : [])] } : undefined },
          // A row without a figure has nothing else that a pointer could rest on.
          // Names lie over the lines that they would cross.
          { type: "custom", z: 6, data: rows.map((row, number) => ({ value: [low, number], tip: row.tip })), encode: { x: 0, y: 1 },
            renderItem: (params, api) => {
              const { coordSys: c } = params;
              const row = rows[params.dataIndex];
              const [, y] = api.coord([low, params.dataIndex]);
              const style = { verticalAlign: "middle", fontSize: 12, fontFamily: family };
              const figure = { type: "text", style: { ...style, x: c.x + c.width + 8, y: y + drop, text: row.figure || told(row) ? row.text : "no figure", fill: row.faint ? css("soft") : css("ink") } };
              const name = { type: "text", style: { ...style, verticalAlign: "bottom", lineHeight: LINE, x: c.x + 2, y: y + drop - 11, text: row.name, width: c.width + 64, overflow: "break", fill: css("ink"), stroke: css("panel"), lineWidth: 3 } };
              return { type: "group", children: narrow ? [figure, name] : [figure] };
            } },
        ],
      };
    },

    curve(data) {
      return {
        grid: { left: 56, right: 26, top: 26, bottom: 30 },
        xAxis: axis({ type: "log", logBase: 4, min: data.points[0][0], max: data.points[data.points.length - 1][0], splitLine: { show: false }, axisLabel: { ...text(), hideOverlap: true, formatter: size } }),
        yAxis: logarithmic(...extent(data.points.map(([, ns]) => ns)).map((ns, end) => (end ? ns * 1.2 : ns / 1.2)), time),
        series: [{ type: "line", symbolSize: 6, symbol: "circle", itemStyle: { color: css("clwb") }, lineStyle: { color: css("clwb"), width: 2 },
          data: data.points.map(([x, y, name]) => ({ value: [x, y], tip: [name, []] })),
          markLine: { silent: true, symbol: "none", lineStyle: { color: css("soft"), type: [3, 3], width: 1 },
            data: data.marks.map(([name, at]) => ({ xAxis: at, name })), label: { formatter: (mark) => mark.name, ...text() } } }],
      };
    },

    sensitivity(data, width) {
      const points = data.curves.flatMap((curve) => curve.points);
      const [least, most] = extent(points.map((p) => p.figure[0]).concat(1));
      // As with other slowdowns, very wide intervals are cut at the figure's edge.
      const [low, high] = extent(points.flatMap((p) => [p.figure[0], Math.max(p.figure[1], least * 0.8), Math.min(p.figure[2], most * 1.3)]).concat(1));
      const sizes = points.map((p) => p.x);
      const [from, to] = extent(sizes);
      const marks = data.marks.filter(([, at]) => at >= from / 1.6 && at <= to * 1.6);
      const at = (api, p, i) => api.coord([p.x, p.figure[i]]);
      return {
        grid: { left: 62, right: 26, top: 28, bottom: 46 },
        xAxis: axis({ type: "log", logBase: to / from > 64 ? 4 : 2, min: from / 1.6, max: to * 1.6, name: data.axis, nameLocation: "middle", nameGap: 30, splitLine: { show: false },
          axisLabel: { ...text(), hideOverlap: true, formatter: size, showMinLabel: false, showMaxLabel: false } }),
        yAxis: ratios(low, high),
        series: data.curves.filter((curve) => curve.points.length > 0).flatMap((curve, number) => [
          { type: "custom", silent: true, z: 1, data: [[curve.points[0].x, curve.points[0].figure[0]]],
            renderItem: (params, api) => ({ type: "polygon", silent: true, style: { fill: css(curve.color), opacity: 0.11 },
              shape: { points: [...curve.points.map((p) => at(api, p, 1)), ...[...curve.points].reverse().map((p) => at(api, p, 2))].map((end) => inside(params, ...end)) } }) },
          { type: "custom", silent: true, z: 2, data: curve.points.map((p) => [p.x, p.figure[0]]),
            renderItem: (params, api) => {
              const p = curve.points[params.dataIndex];
              return whisker(params, [at(api, p, 1), at(api, p, 2)], { stroke: css(curve.color), opacity: 0.5 });
            } },
          { type: "line", z: 3, symbol: "circle", symbolSize: 8, lineStyle: { color: css(curve.color), width: 2 },
            data: curve.points.map((p) => ({ value: [p.x, p.figure[0]], tip: p.tip,
              itemStyle: { color: p.said ? css(curve.color) : css("panel"), borderColor: css(curve.color), borderWidth: 1.8 } })),
            markLine: number > 0 ? undefined : { silent: true, symbol: "none",
              data: [...marks.map(([name, at]) => ({ xAxis: at, name, lineStyle: { color: css("soft"), type: [3, 3], width: 1 }, label: { formatter: name, ...text() } })),
                { yAxis: 1, lineStyle: { color: css("soft"), type: "solid", width: 1, opacity: 0.6 }, label: { show: false } }] } },
        ]),
      };
    },
  };

  const draw = (chart, width, paper) => {
    if (chart.drawn) chart.drawn.dispose();
    // Rows with their names above them are higher.
    if (chart.data.kind === "ranges" || chart.data.kind === "dots") {
      const { narrow, lines } = nameRoom(chart.data, width);
      chart.box.style.height = chart.height + (narrow ? 18 * lines : LINE * (lines - 1)) * chart.data.rows.length + "px";
    }
    if (chart.data.kind === "heat") chart.box.style.height = Math.max(chart.height, 36 + heatRow(chart.data, width) * chart.data.rows.length) + "px";
    const height = chart.box.clientHeight || parseFloat(chart.box.style.height);
    chart.drawn = echarts.init(chart.host, null, { renderer: "svg", width, height });
    const option = kinds[chart.data.kind](chart.data, width);
    chart.drawn.setOption({ animation: false, textStyle: { fontFamily: family }, tooltip: paper ? undefined : tooltip(), ...option });
    // Ticks follow what is zoomed in on.
    chart.drawn.on("datazoom", () => {
      const { dataZoom: [{ startValue, endValue }], xAxis } = chart.drawn.getOption();
      const customValues = evenly(startValue, endValue, 8);
      chart.drawn.setOption({ xAxis: xAxis.map(() => ({ axisTick: { customValues }, axisLabel: { customValues } })) });
    });
    chart.width = width;
  };
  // What is folded away has no width, and is drawn once it is opened.
  const drawAll = (width, paper) => {
    for (const chart of charts) if (width || chart.box.clientWidth) draw(chart, width || chart.box.clientWidth, paper);
  };
  document.addEventListener("toggle", () => {
    for (const chart of charts) if (chart.box.clientWidth && chart.box.clientWidth !== chart.width) draw(chart, chart.box.clientWidth);
  }, true);

  for (const box of document.querySelectorAll(".chart")) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const host = document.createElement("div");
    host.style.width = host.style.height = "100%";
    box.append(host);
    charts.push({ box, host, data, height: parseFloat(box.style.height) });
  }
  drawAll();
  root.dataset.drawn = String(charts.length);

  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const chart of charts) if (chart.box.clientWidth && chart.box.clientWidth !== chart.width) draw(chart, chart.box.clientWidth);
    }, 120);
  });

  // The system's choice until somebody makes one; that one is kept where the browser lets a file keep it.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const choose = (theme) => {
    if (theme) root.dataset.theme = theme;
    drawAll();
  };
  const kept = () => { try { return localStorage.getItem("ringfence-theme"); } catch { return null; } };
  const before = kept();
  if (before === "light" || before === "dark") choose(before);
  dark.addEventListener("change", () => choose());
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    try { localStorage.setItem("ringfence-theme", next); } catch { /* not kept */ }
    choose(next);
  });

  // On paper: light, as wide as the paper, short tables open.
  let opened = [];
  const paperWidth = 660;
  window.addEventListener("beforeprint", () => {
    root.dataset.before = root.dataset.theme || "";
    root.dataset.theme = "light";
    drawAll(paperWidth, true);
    opened = [...document.querySelectorAll("details:not([open])")].filter((details) => details.querySelectorAll("tr").length <= 30 && !details.matches(".file, .timeline details"));
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    if (root.dataset.before) root.dataset.theme = root.dataset.before; else delete root.dataset.theme;
    delete root.dataset.before;
    for (const details of opened) details.open = false;
    drawAll();
  });

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const pre = button.parentElement.querySelector("pre");
      let done = false;
      try { await navigator.clipboard.writeText(pre.textContent); done = true; } catch { /* by selection, below */ }
      if (!done) {
        // It stays selected: where the browser does not copy, a key does.
        getSelection().selectAllChildren(pre);
        try { done = document.execCommand("copy"); } catch { /* by hand */ }
      }
      const [word, what] = button.childNodes;
      const say = (text, whole) => { word.nodeValue = text; what.hidden = !whole; };
      say(done ? "Copied" : "Selected: press Ctrl+C", false);
      setTimeout(() => say("Copy", true), done ? 2000 : 6000);
    });
  }
})();
