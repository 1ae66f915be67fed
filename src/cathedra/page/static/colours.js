// Colours of the map, after Okabe and Ito: people with any common colour blindness can tell them apart. The same
// colours draw the pictures of the command line (`cathedra/insight/drawing/colours.py`).

export const STATES = {
  free: { colour: "#009e73", text: "free" },
  held: { colour: "#0072b2", text: "held" },
  shared: { colour: "#56b4e9", text: "held in part" },
  blocked: { colour: "#e69f00", text: "blocked" },
  tainted: { colour: "#cc79a7", text: "tainted" },
  unusable: { colour: "#8a8a8a", text: "unusable" },
  gone: { colour: "#d55e00", text: "gone" },
};
export const UNHEALTHY = "#d55e00";
export const WAITING = "#f0e442";

export const THEMES = {
  light: { paper: "#ffffff", ink: "#1b1b1b", faint: "#5c5c5c", line: "#c9c9c9", panel: "#f4f5f6", mark: "#000000" },
  dark: { paper: "#14171a", ink: "#f0f0f0", faint: "#a9b0b6", line: "#3c434a", panel: "#1d2125", mark: "#ffffff" },
};
