"use strict";
// Light or dark as the system says, until the button says otherwise.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    root.dataset.theme = system.matches ? "dark" : "light";
  };
  follow();
  system.addEventListener("change", follow);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    document.dispatchEvent(new Event("themechange"));
  });
}
