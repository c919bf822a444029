"""How the page looks: one palette for light, one for dark; every text colour reads on every ground it stands on."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "ground": "#f6f7f9",
    "surface": "#ffffff",
    "text": "#1a2129",
    "muted": "#515c69",
    "line": "#d5dbe3",
    "accent": "#155a9c",
    "good": "#14633a",
    "good-ground": "#e8f5ec",
    "note": "#1d4f86",
    "note-ground": "#e9f1fa",
    "warn": "#774400",
    "warn-ground": "#fdf3dd",
    "bad": "#9a1b1b",
    "bad-ground": "#fdeceb",
    "one": "#0b62a8",
    "two": "#b0420a",
    "three": "#0a7350",
    "four": "#9b3576",
    "five": "#5a4fb0",
}

DARK: Mapping[str, str] = {
    "ground": "#10151b",
    "surface": "#19202a",
    "text": "#e8ecf1",
    "muted": "#a9b4c1",
    "line": "#35404d",
    "accent": "#82bdff",
    "good": "#8fdbac",
    "good-ground": "#15291d",
    "note": "#a6cdfa",
    "note-ground": "#16263a",
    "warn": "#f3c877",
    "warn-ground": "#2e2410",
    "bad": "#ffa8a1",
    "bad-ground": "#381a1a",
    "one": "#6cb4f5",
    "two": "#f09a63",
    "three": "#5fcfa4",
    "four": "#e594c4",
    "five": "#b0a6f5",
}

READ_ON: tuple[tuple[str, str], ...] = (
    *((text, "ground") for text in ("text", "muted", "accent", "good", "warn", "bad")),
    *((text, "surface") for text in ("text", "muted", "accent", "good", "warn", "bad")),
    ("note", "surface"),
    *((kind, f"{kind}-ground") for kind in ("good", "note", "warn", "bad")),
    *(("text", f"{kind}-ground") for kind in ("good", "note", "warn", "bad")),
    *((line, "surface") for line in ("one", "two", "three", "four", "five")),
)
"""Which colours are read on which grounds; a test holds all of them to a contrast of 4.5."""


def stylesheet() -> str:
    """All of it; the page loads nothing."""
    dark = _variables(DARK)
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}" + RULES
    )


def _variables(palette: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())


RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--ground);color:var(--text);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:1rem;background:var(--surface);padding:.5rem 1rem;z-index:1}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.2rem}
footer{padding-bottom:3rem;color:var(--muted);font-size:.875rem}
h1{font-size:clamp(1.6rem,5vw,2.3rem);line-height:1.15;margin:.2rem 0 .6rem;letter-spacing:-.015em;text-wrap:balance}
h2{font-size:1.4rem;line-height:1.25;margin:2.6rem 0 .8rem;letter-spacing:-.01em}
h3{font-size:1.1rem;line-height:1.3;margin:1.8rem 0 .5rem}
h4{font-size:1rem;margin:1.4rem 0 .4rem}
p,ul,dl{margin:.6rem 0}
ul{padding-left:1.2rem}
li{margin:.25rem 0}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:3px}
.kicker{color:var(--muted);font-size:.85rem;font-weight:600;letter-spacing:.06em;text-transform:uppercase;margin:0}
.lead{font-size:1.1rem;max-width:46rem}
.verdict{font-size:clamp(1.25rem,3.6vw,1.7rem);line-height:1.35;font-weight:650;letter-spacing:-.01em;max-width:52rem;
 margin:.4rem 0 1rem;text-wrap:pretty}
.brief{max-width:52rem}
.answer{display:block;font-weight:700}
.answer.good{color:var(--good)}.answer.note{color:var(--note)}.answer.warn{color:var(--warn)}.answer.bad{color:var(--bad)}
abbr[title]{text-decoration:underline dotted;cursor:help}
sup{line-height:0;font-size:.75em}sup a{text-decoration:none;padding:0 .15em}
.signature{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,18rem),1fr));gap:1.4rem 2rem}
.signature dt{color:var(--muted);font-size:.875rem}
.signature dd{margin:0;border-bottom:1px solid var(--text);min-height:2.6rem}
.muted{color:var(--muted)}
.small{font-size:.875rem}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1rem 0 0;font-size:.95rem}
nav li{margin:0}
section.run{border-top:3px solid var(--line);margin-top:3rem}
.badge{display:inline-block;border:1px solid currentColor;border-radius:99rem;padding:.05rem .7rem;font-size:.85rem;
 font-weight:600;margin:0 .35rem .3rem 0}
.badge.good{color:var(--good)}.badge.warn{color:var(--warn)}.badge.bad{color:var(--bad)}.badge.note{color:var(--muted)}
.callout{border-left:4px solid;border-radius:0 .5rem .5rem 0;padding:.7rem 1rem;margin:1rem 0}
.callout p,.callout ul{margin:.25rem 0;color:var(--text)}
.callout .callout-title{font-weight:700;color:inherit}
.callout.good{color:var(--good);background:var(--good-ground)}
.callout.note{color:var(--note);background:var(--note-ground)}
.callout.warn{color:var(--warn);background:var(--warn-ground)}
.callout.bad{color:var(--bad);background:var(--bad-ground)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,11.5rem),1fr));gap:.9rem 1.4rem;margin:1rem 0}
.facts div{border-left:3px solid var(--line);padding-left:.8rem;min-width:0}
.facts dt{color:var(--muted);font-size:.875rem}
.facts dd{margin:0;font-size:1.25rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.facts.little dd{font-size:1rem;font-weight:500;overflow-wrap:anywhere}
.facts dd .small{display:block;font-weight:400;color:var(--muted);line-height:1.4}
.scroll{overflow-x:auto;margin:.8rem 0;border:1px solid var(--line);border-radius:.6rem;background:var(--surface)}
table{border-collapse:collapse;width:100%;font-size:.94rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.7rem .9rem .2rem;font-size:.875rem;color:var(--muted)}
th,td{text-align:left;vertical-align:top;padding:.55rem .9rem;border-top:1px solid var(--line)}
thead th{border-top:0;font-size:.875rem;color:var(--muted);font-weight:600;vertical-align:bottom}
tbody th{font-weight:600}
th.number,td.number{text-align:right}
td.number{white-space:nowrap}
@media screen and (min-width:44rem){.figures tbody th{min-width:8rem}
 .wide th:first-child{min-width:10rem}.wide td:nth-last-child(-n+2){min-width:12rem}}
.wide td ul{margin:0;padding-left:1rem}
.who{display:block;font-weight:400;color:var(--muted);font-size:.875rem}
.epsilon{font-weight:600;white-space:nowrap;font-size:.94rem}
.wide .epsilon{font-size:1.15rem;font-weight:700}
.epsilon.none{color:var(--bad)}
.odds{display:block;font-size:.875rem;color:var(--muted);line-height:1.35}
.meter{display:block;height:.4rem;border-radius:.2rem;background:var(--line);margin:.35rem 0 .25rem;max-width:9rem;
 overflow:hidden}
.meter.status{max-width:none}
.meter span{display:block;height:100%;background:var(--one)}
.meter.full span{background:var(--bad)}
@media screen and (min-width:44rem){.glance th,.glance td{width:34%}
 .answers tbody th{width:22%}.answers td:nth-child(2){width:58%}
 .sources tbody th{width:26%}.sources td:last-child{width:30%}}
.sources td:last-child{overflow-wrap:anywhere;font-size:.875rem;color:var(--muted)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem;margin:1rem 0}
.charts figure,.charts .scroll{margin:0}
.charts .scroll{align-self:start}
figure{margin:1rem 0;background:var(--surface);border:1px solid var(--line);border-radius:.8rem;padding:1rem;
 min-width:0}
figcaption{font-weight:650;margin-bottom:.4rem}
figcaption .small{display:block;font-weight:400;color:var(--muted)}
svg.chart{display:block;width:100%;height:auto;max-width:36rem;overflow:visible}
svg text{fill:var(--muted);font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif}
svg .grid{stroke:var(--line);stroke-width:1}
svg .axis{stroke:var(--muted);stroke-width:1}
svg .line{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
svg .limit{stroke:var(--bad);stroke-width:1.6;stroke-dasharray:2 4;stroke-linecap:round}
svg .limit-text{fill:var(--bad)}
.one{stroke:var(--one);color:var(--one)}.two{stroke:var(--two);color:var(--two)}
.three{stroke:var(--three);color:var(--three)}.four{stroke:var(--four);color:var(--four)}
.five{stroke:var(--five);color:var(--five)}
svg .dot{fill:currentColor;stroke:none}
svg .bar{fill:var(--one)}
.legend{list-style:none;padding:0;margin:.5rem 0 0;font-size:.875rem;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}
.legend svg{width:2.1rem;height:.7rem;vertical-align:middle;margin-right:.4rem}
.legend .line{fill:none;stroke-width:2.4}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--accent);font-size:.9rem}
pre{overflow-x:auto;background:var(--surface);border:1px solid var(--line);border-radius:.6rem;padding:.9rem 1rem;
 font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;max-height:28rem;white-space:pre}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.thefts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,15.5rem),1fr));gap:1rem}
.thefts figure{margin:0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:.7rem}
.pair div{font-size:.875rem;color:var(--muted)}
.pair img{display:block;width:100%;height:auto;image-rendering:pixelated;
 border-radius:.3rem;border:1px solid var(--line)}
@media screen and (max-width:44rem){
 .stack,.stack tbody,.stack tr,.stack th,.stack td,.stack caption{display:block;width:auto;text-align:left}
 .stack thead,.glance thead th:first-child{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
 .stack tr{border-top:1px solid var(--line);padding:.5rem 0}
 .stack th,.stack td{border:0;padding:.15rem .9rem}
 .stack td::before{content:attr(data-label);display:block;color:var(--muted);font-size:.8rem}
 .stack td:empty{display:none}
 .glance,.glance thead,.glance tbody,.glance caption{display:block}
 .glance tr{display:grid;grid-template-columns:1fr 1fr;border-top:1px solid var(--line);padding:.4rem 0}
 .glance thead tr{border:0}
 .glance th,.glance td{border:0;padding:.2rem .9rem}.glance tbody th{grid-column:1/-1}}
@media screen and (max-width:34rem){figure{padding:.8rem}svg text{font-size:15.5px}svg .up{display:none}
 th,td{padding:.5rem .6rem}header,main,footer{padding-left:1rem;padding-right:1rem}
}
@page{margin:16mm 15mm}
@media print{html{font-size:13px}body{background:var(--surface);font-size:10pt}nav,.skip,sup,details{display:none}
 header,main,footer{padding:0;max-width:none}h2,h3,h4,caption{break-after:avoid}h2{margin-top:1.8rem}
 figure,.callout,tr,dl.signature{break-inside:avoid}p,li{orphans:3;widows:3}
 th,td{padding:.4rem .6rem}.scroll{border:0;border-bottom:1px solid var(--line);border-radius:0}
 .scroll,pre{overflow:visible;max-height:none}pre{white-space:pre-wrap;overflow-wrap:anywhere}
 .answers tbody th{width:24%}.answers td:last-child,.answers thead th:last-child{display:none}
 .sources td:last-child{width:30%}.meter{border:1px solid var(--line);print-color-adjust:exact}
 abbr[title],a{color:inherit;text-decoration:none}section.run{break-before:page}}
"""
