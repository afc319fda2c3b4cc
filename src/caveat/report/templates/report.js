// Filtering and picking. Without it the page says the same, only longer.
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  const filter = document.getElementById("outlier-filter");
  if (filter) {
    const apply = () => {
      for (const part of all("[data-outlier]")) {
        part.classList.toggle("away", filter.value !== "" && part.dataset.outlier !== filter.value);
      }
    };
    filter.parentElement.hidden = false;
    filter.addEventListener("change", apply);
    apply(); // a browser may restore the choice on reload
  }

  const picker = document.getElementById("score-picker");
  const pictures = all("#histogram-list > details");
  if (pictures.length > 1) {
    pictures.forEach((picture, i) => {
      picker.add(new Option(picture.firstElementChild.textContent, i));
      picture.classList.add("picked");
    });
    const show = () => pictures.forEach((picture, i) => {
      picture.open = String(i) === picker.value;
      picture.classList.toggle("away", !picture.open);
    });
    picker.parentElement.hidden = false;
    picker.addEventListener("change", show);
    show();
  }
})();
