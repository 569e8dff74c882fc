"""An array whose axes have names and labels."""

import numpy as np


class Labelled:
    """values with one name per axis (dims) and one label per element of an axis (coords).

    >>> pattern.sel(step=3, head=0)      # by label
    >>> pattern.isel(step=-1)            # by index
    >>> pattern.mean("head")             # without NaN
    >>> np.asarray(pattern)              # numpy functions take it as it is
    """

    def __init__(self, values, dims, coords):
        self.values = np.asarray(values)
        self.dims = tuple(dims)
        self.coords = {dim: np.asarray(coords[dim]) for dim in self.dims}
        if self.values.shape != tuple(len(self.coords[dim]) for dim in self.dims):
            raise ValueError(f"shape {self.values.shape} does not fit the labels of {', '.join(self.dims)}")

    @property
    def shape(self):
        return self.values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __repr__(self):
        axes = ", ".join(f"{dim}: {len(self.coords[dim])}" for dim in self.dims)
        return f"<Labelled ({axes})>\n{self.values!r}"

    def isel(self, **indices):
        """By index: a number drops the axis, a slice or a list keeps it."""
        values, dims, coords = self.values, list(self.dims), dict(self.coords)
        for dim, index in indices.items():
            axis = dims.index(self._known(dim))
            if np.ndim(index) == 0 and not isinstance(index, slice):
                values = values.take(index, axis)
                dims.remove(dim)
            else:
                chosen = np.arange(len(coords[dim]))[index]
                values, coords[dim] = values.take(chosen, axis), coords[dim][chosen]
        return Labelled(values, dims, coords)

    def sel(self, **labels):
        """By label; a list keeps the axis."""
        return self.isel(**{dim: self._index(dim, wanted) for dim, wanted in labels.items()})

    def mean(self, *dims):
        """Over the named axes, or all, of what is not NaN; NaN where nothing is left."""
        return self._reduced(dims, lambda total, count: total / count)

    def sum(self, *dims):
        return self._reduced(dims, lambda total, count: total)

    def to_xarray(self):
        """The same as an xarray.DataArray; needs xarray."""
        import xarray

        return xarray.DataArray(self.values, dims=self.dims, coords=self.coords)

    def _known(self, dim):
        if dim not in self.dims:
            raise KeyError(f"no axis {dim!r}; the axes are {', '.join(self.dims)}")
        return dim

    def _index(self, dim, wanted):
        labels = self.coords[self._known(dim)].tolist()
        try:
            return labels.index(wanted) if np.ndim(wanted) == 0 else [labels.index(one) for one in np.asarray(wanted).tolist()]
        except ValueError:
            raise KeyError(f"{dim} {wanted} is not there; it has {labels[0]} … {labels[-1]}") from None

    def _reduced(self, dims, result):
        axes = tuple(self.dims.index(self._known(dim)) for dim in dims or self.dims)
        left = [dim for i, dim in enumerate(self.dims) if i not in axes]
        count = np.asarray((~np.isnan(self.values)).sum(axis=axes), dtype=np.float64)
        count[count == 0] = np.nan
        total = np.where(np.isnan(count), np.nan, np.nansum(self.values, axis=axes))
        return Labelled(result(total, count), left, self.coords)
